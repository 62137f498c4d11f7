import Foundation
import GRDB
import OpportuneBase
import OpportuneFuzz
import OpportuneReplay

/// Recordings of devices: databases of each known format with any values in them, and damaged ones.
struct RecordingProperty: DrawnProperty {
  let name = "recording"
  let summary =
    "A recorded database, whatever its cells hold, is read in the order of its times or refused with a reason; an "
    + "assertion ends only after it began; it replays to its end, with spans within it, short of memory too; nothing "
    + "traps."
  let head = 4
  let grain = 8
  var read: @Sendable (String) throws -> Trace = { try TraceReader.read($0) }

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 0...40, using: &generator))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    guard let folder = OwnFolder.path else { throw Violation("there is no folder for a recording") }
    let path = "\(folder)/recording-\(UUID())"
    defer { unlink(path) }
    do { try write(input, to: path, &log) } catch {
      throw Violation("no recording was made: \(error)")
    }
    let trace: Trace
    do { trace = try read(path) } catch {
      guard let error = error as? TraceError, !error.description.isEmpty else {
        throw Violation("the error is no TraceError: \(error)")
      }
      return
    }
    log.note(
      "\(trace.inputs.count) inputs, \(trace.expectations.count) expectations, \(trace.sums.count) sums")
    try judge(trace)
    // With no end of memory, and with what holds two apps whose sizes are not recorded.
    for memory in [nil, 200 << 20] as [UInt64?] {
      log.note(memory == nil ? "replay" : "replay, short of memory")
      var options = ReplayOptions()
      options.memory = memory
      let report: ReplayReport
      do { report = try Replay.run(trace, options) } catch { throw Violation("it does not replay: \(error)") }
      try judge(report, of: trace)
    }
  }

  private func judge(_ trace: Trace) throws(Violation) {
    var open: [String: Set<Int64>] = [:]
    for (index, (at, input)) in trace.inputs.enumerated() {
      if index > 0, at < trace.inputs[index - 1].at { throw Violation("an input at \(at) comes late") }
      // Other recordings name their assertions themselves.
      guard trace.format == "android-app-usage", case .assertion(let app, let number, let begins) = input
      else {
        continue
      }
      if begins {
        guard open[app, default: []].insert(number).inserted else {
          throw Violation("an assertion begins twice")
        }
      } else if open[app]?.remove(number) == nil {
        throw Violation("an assertion of '\(app)' ends that did not begin")
      }
    }
    for (before, after) in zip(trace.expectations, trace.expectations.dropFirst()) where before.at > after.at
    {
      throw Violation("an expectation at \(after.at) comes late")
    }
  }

  private func judge(_ report: ReplayReport, of trace: Trace) throws(Violation) {
    for span in report.spans where !(span.start <= span.end) {
      throw Violation("a span of '\(span.app)' is from \(span.start) to \(span.end)")
    }
    guard
      report.compared + report.notObservable
        == (trace.inputs.isEmpty && trace.expectations.isEmpty ? 0 : trace.expectations.count)
    else {
      throw Violation(
        "\(report.compared) + \(report.notObservable) of \(trace.expectations.count) states were compared")
    }
    var last = report.start
    for removal in report.removals {
      guard removal.at >= last, removal.at <= report.end, removal.reason.hasPrefix("\(removal.app) was ")
      else {
        throw Violation(
          "a removal of '\(removal.app)' at \(removal.at), after one at \(last): \(removal.reason)")
      }
      last = removal.at
    }
    do { _ = try JSONSerialization.jsonObject(with: Data(report.json().utf8)) } catch {
      throw Violation("the report is no JSON: \(error)")
    }
  }

  // MARK: Making one

  private struct Table {
    var name: String
    var columns: [String]
  }

  private static let formats: [[Table]] = [
    [
      Table(name: "packages", columns: ["_id", "package_name"]),
      Table(name: "events", columns: ["_id", "timestamp", "type", "instance_id", "package_id"]),
    ],
    [
      Table(
        name: "PLApplicationAgent_EventForward_Application",
        columns: ["ID", "timestamp", "Identifier", "pid", "State"]),
      Table(
        name: "PLProcessMonitorAgent_EventForward_ProcessID",
        columns: ["ID", "timestamp", "PID", "BundleID", "ProcessName"]),
      Table(name: "PLScreenStateAgent_EventForward_ScreenState", columns: ["ID", "timestamp", "bundleID"]),
      Table(
        name: "PLPowerAssertionAgent_EventForward_Assertion",
        columns: [
          "ID", "timestamp", "Action", "pid", "AssertionOnBehalfOfPID", "GlobalUniqueID",
          "timestampActionOffset",
        ]),
      Table(name: "PLPushAgent_EventPoint_ReceivedPush", columns: ["ID", "timestamp", "BundleID"]),
      Table(
        name: "PLApplicationAgent_EventBackward_ApplicationMemory",
        columns: ["ID", "timestamp", "AppBundleId", "SuspendedMemory"]),
      Table(name: "PLSpringBoardAgent_EventForward_SBBlank", columns: ["ID", "timestamp", "Blanked"]),
      Table(name: "PLStorageOperator_EventForward_TimeOffset", columns: ["ID", "timestamp", "system"]),
      Table(name: "PLConfigAgent_EventNone_Config", columns: ["ID", "timestamp", "DeviceBootTime"]),
    ],
    [
      Table(
        name: "ZUSAGETIMEDITEM", columns: ["Z_PK", "ZBUNDLEIDENTIFIER", "ZTOTALTIMEINSECONDS", "ZCATEGORY"]),
      Table(name: "ZUSAGECATEGORY", columns: ["Z_PK", "ZBLOCK"]),
      Table(name: "ZUSAGEBLOCK", columns: ["Z_PK", "ZSTARTDATE", "ZDURATIONINMINUTES", "ZUSAGE"]),
      Table(name: "ZUSAGE", columns: ["Z_PK", "ZDEVICE", "ZUSER"]),
    ],
    [Table(name: "ZOBJECT", columns: ["Z_PK", "ZSTREAMNAME", "ZVALUESTRING", "ZSTARTDATE", "ZENDDATE"])],
  ]

  /// Cells that no column of these is meant to hold; the last is beyond what a clock can say.
  private static let odd: [DatabaseValue] = [
    .null, "text".databaseValue, "".databaseValue, Data([0, 1, 0xff]).databaseValue, Int64.max.databaseValue,
    Int64.min.databaseValue, (-1.5).databaseValue, 1e300.databaseValue, (-Double.infinity).databaseValue,
    "7".databaseValue, Double.infinity.databaseValue,
  ]

  private func write(_ input: [UInt8], to path: String, _ log: inout StepLog) throws {
    var (bytes, rows) = parts(of: input)
    let tables = bytes.choice(Self.formats)
    let (oddity, missing, damage) = (bytes.byte(), Int(bytes.byte()), bytes.byte())
    var configuration = Configuration()
    configuration.prepareDatabase { database in try database.execute(sql: "PRAGMA synchronous = OFF") }
    configuration.journalMode = .default
    let queue = try DatabaseQueue(path: path, configuration: configuration)
    try queue.writeWithoutTransaction { database in
      try database.execute(sql: "PRAGMA journal_mode = OFF")
      try database.inTransaction {
        for (number, table) in tables.enumerated() where missing == 0 || missing > 40 || missing % 7 != number
        {
          try database.execute(sql: "CREATE TABLE \(table.name) (\(table.columns.joined(separator: ", ")))")
        }
        for var cells in rows {
          let table = cells.choice(tables)
          guard try database.tableExists(table.name) else { continue }
          let values = table.columns.map { Self.cell(of: $0, oddity, &cells) }
          log.note("\(table.name): \(values.map(\.description).joined(separator: ", "))")
          let marks = values.map { _ in "?" }.joined(separator: ", ")
          try database.execute(
            sql: "INSERT INTO \(table.name) VALUES (\(marks))", arguments: StatementArguments(values))
        }
        return .commit
      }
    }
    try queue.close()
    // A quarter of them damaged.
    if damage & 3 == 1 { try Self.damageFile(path, seed: UInt64(damage) << 8 | UInt64(oddity), &log) }
  }

  private static func cell(of column: String, _ oddity: UInt8, _ bytes: inout ByteSource) -> DatabaseValue {
    let byte = bytes.byte()
    // In half of the recordings one cell in 16 is odd.
    if oddity & 1 == 1, byte >> 4 == 15 { return odd[Int(byte & 15) % odd.count] }
    return ordinary(column, Int(byte)).databaseValue
  }

  private static func ordinary(_ column: String, _ small: Int) -> any DatabaseValueConvertible {
    switch column {
    case "timestamp", "DeviceBootTime": return 1_600_000_000 + Double(small) * 7.25
    case "ZSTARTDATE", "ZENDDATE": return 600_000_000 + Double(small) * 11
    case "package_name", "Identifier", "bundleID", "BundleID", "AppBundleId", "ZBUNDLEIDENTIFIER",
      "ZVALUESTRING":
      return ["a", "b", "com.apple.springboard.home-screen", "c"][small % 4]
    case "ZSTREAMNAME": return small % 8 == 0 ? "/other" : "/app/inFocus"
    case "type": return [1, 2, 12, 19, 20, 23, 26, 27, 5, 1, 23, 19, 20][small % 13]
    case "State": return [1, 2, 4, 8, 0, 16][small % 6]
    case "Action": return [0, 4, 0, 4, 2][small % 5]
    case "SuspendedMemory": return small << 20
    case "timestampActionOffset": return -1000 * (small % 64)
    case "system": return Double(small % 4) * -10
    case "ZTOTALTIMEINSECONDS": return small
    default: return 1 + small % 4
    }
  }

  private static func damageFile(_ path: String, seed: UInt64, _ log: inout StepLog) throws {
    var bytes = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path)))
    var generator = SplitMix64(seed: seed)
    for _ in 0..<Int.random(in: 1...6, using: &generator) {
      // The beginning says what all the rest is.
      let bound = Bool.random(using: &generator) ? min(bytes.count, 200) : bytes.count
      bytes[Int.random(in: 0..<bound, using: &generator)] = UInt8.random(in: 0...255, using: &generator)
    }
    if seed & 12 == 0 { bytes.removeLast(Int.random(in: 0...bytes.count, using: &generator)) }
    log.note("damaged: \(bytes.count) bytes are left")
    try Data(bytes).write(to: URL(fileURLWithPath: path))
  }
}
