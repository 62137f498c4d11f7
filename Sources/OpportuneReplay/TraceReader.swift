import Foundation
import GRDB
import OpportuneApps

/// A trace that cannot be read.
package enum TraceError: Error, Sendable, Hashable, CustomStringConvertible {
  case missing(String)
  case compressed(String)
  case notADatabase(String, String)
  case unknownFormat(String, known: [String])
  case damaged(String, String)

  package var description: String {
    switch self {
    case .missing(let path): "'\(path)' cannot be read: no such file, or no right to it"
    case .compressed(let path): "'\(path)' is compressed; unpack it first: gunzip -k '\(path)'"
    case .notADatabase(let path, let reason): "'\(path)' is no SQLite database: \(reason)"
    case .unknownFormat(let path, let known):
      "'\(path)' has none of the known formats: \(known.joined(separator: ", "))"
    case .damaged(let path, let reason): "'\(path)' cannot be read to its end: \(reason)"
    }
  }
}

/// A format of recordings.
protocol TraceFormat: Sendable {
  var name: String { get }
  /// A database that has this table is of this format.
  var table: String { get }
  func read(_ database: Database) throws -> Trace
}

package enum TraceReader {
  static let formats: [any TraceFormat] = [PowerLog(), AndroidUsage(), ScreenTime(), DesktopFocus()]

  package static var formatNames: [String] { formats.map(\.name) }

  /// Reads a recording; its format is known by its tables. The file is opened for reading only.
  ///
  /// - Throws: ``TraceError``.
  package static func read(_ path: String) throws(TraceError) -> Trace {
    guard let file = FileHandle(forReadingAtPath: path) else { throw TraceError.missing(path) }
    let head = (try? file.read(upToCount: 2)) ?? Data()
    try? file.close()
    if head == Data([0x1f, 0x8b]) { throw TraceError.compressed(path) }
    do {
      var configuration = Configuration()
      configuration.readonly = true
      let queue = try DatabaseQueue(path: path, configuration: configuration)
      return try queue.read { database in
        for format in formats where try database.tableExists(format.table) {
          var trace = try format.read(database)
          trace.sort()
          return trace
        }
        throw TraceError.unknownFormat(path, known: formatNames)
      }
    } catch let error as TraceError {
      throw error
    } catch let error as DatabaseError where error.resultCode == .SQLITE_NOTADB {
      throw TraceError.notADatabase(path, error.message ?? "\(error.resultCode)")
    } catch {
      throw TraceError.damaged(path, "\(error)")
    }
  }
}

/// The usage events of Android, as its own database has them.
struct AndroidUsage: TraceFormat {
  let name = "android-app-usage"
  let table = "packages"

  func read(_ database: Database) throws -> Trace {
    var trace = Trace(format: name)
    let rows = try Row.fetchCursor(
      database,
      sql: """
        SELECT timestamp, type, package_name, instance_id FROM events JOIN packages ON packages._id = package_id
        WHERE type IN (1, 2, 12, 19, 20, 23, 26, 27) ORDER BY timestamp, events._id
        """)
    /// The activities of each package that are resumed.
    var resumed: [String: Set<Int64>] = [:]
    var services: [String: Int64] = [:]
    var serial: Int64 = 0
    while let row = try rows.next() {
      guard let at = row.seconds("timestamp", perSecond: 1000), let type = row.value("type", as: Int64.self),
        let app = row.value("package_name", as: String.self)
      else { continue }
      let instance = row.value("instance_id", as: Int64.self) ?? 0
      switch type {
      case 1:
        resumed[app, default: []].insert(instance)
        trace.inputs.append((at, .front(app)))
      case 2: resumed[app]?.remove(instance)
      case 23: if resumed[app]?.isEmpty ?? true { trace.inputs.append((at, .left(app))) }
      case 12: trace.inputs.append((at, .notification(app)))
      case 19:
        guard services[app] == nil else { continue }
        serial += 1
        services[app] = serial
        trace.inputs.append((at, .assertion(app, serial, begins: true)))
      case 20:
        if let service = services.removeValue(forKey: app) {
          trace.inputs.append((at, .assertion(app, service, begins: false)))
        }
      default:
        resumed = [:]
        services = [:]
        trace.inputs.append((at, .shutdown))
      }
    }
    return trace
  }
}

/// The power log of iOS. Its state rows are what is expected; screen, process starts, assertions and pushes are inputs.
struct PowerLog: TraceFormat {
  let name = "ios-powerlog"
  let table = "PLApplicationAgent_EventForward_Application"

  /// Bits as they are commonly read; the vendor does not document them.
  private static let states: [Int64: LifecycleState.Operational] = [
    1: .terminated, 2: .suspended, 4: .background, 8: .foreground,
  ]

  func read(_ database: Database) throws -> Trace {
    var trace = Trace(format: name)
    var apps: [Int64: String] = [:]
    for row in try Row.fetchAll(
      database, sql: "SELECT timestamp, Identifier, pid, State FROM \(table) ORDER BY timestamp, ID")
    {
      guard let at = row.seconds("timestamp"), let app = row.value("Identifier", as: String.self),
        let state = Self.states[row.value("State", as: Int64.self) ?? 0]
      else { continue }
      trace.expectations.append(Trace.Expectation(at: at, app: app, state: state))
      if let process = row.value("pid", as: Int64.self) { apps[process] = app }
    }
    let known = Set(apps.values)
    func rows(_ table: String, _ columns: String, _ body: (Row, Double) -> Void) throws {
      guard try database.tableExists(table) else { return }
      for row in try Row.fetchAll(database, sql: "SELECT timestamp, \(columns) FROM \(table) ORDER BY timestamp, ID") {
        if let at = row.seconds("timestamp") { body(row, at) }
      }
    }
    try rows("PLProcessMonitorAgent_EventForward_ProcessID", "PID") { row, at in
      if let process = row.value("PID", as: Int64.self), let app = apps[process] {
        trace.inputs.append((at, .started(app)))
      }
    }
    try rows("PLScreenStateAgent_EventForward_ScreenState", "bundleID") { row, at in
      guard let bundle = row.value("bundleID", as: String.self) else { return }
      // Home screen and lock screen are parts of one app.
      let app = bundle.hasPrefix("com.apple.springboard") ? "com.apple.springboard" : bundle
      trace.inputs.append((at, .front(known.contains(app) ? app : "com.apple.springboard")))
    }
    try rows("PLPowerAssertionAgent_EventForward_Assertion", "Action, pid, AssertionOnBehalfOfPID, GlobalUniqueID") {
      row, at in
      let process = row.value("AssertionOnBehalfOfPID", as: Int64.self) ?? row.value("pid", as: Int64.self) ?? -1
      guard let app = apps[process], let action = row.value("Action", as: Int64.self),
        let identifier = row.value("GlobalUniqueID", as: Int64.self)
      else { return }
      if action == 0 || action == 4 { trace.inputs.append((at, .assertion(app, identifier, begins: action == 0))) }
    }
    try rows("PLPushAgent_EventPoint_ReceivedPush", "BundleID") { row, at in
      if let app = row.value("BundleID", as: String.self), known.contains(app) {
        trace.inputs.append((at, .notification(app)))
      }
    }
    try rows("PLApplicationAgent_EventBackward_ApplicationMemory", "AppBundleId, SuspendedMemory") { row, at in
      if let app = row.value("AppBundleId", as: String.self), let bytes = row.value("SuspendedMemory", as: Int64.self),
        (1..<Int64(1 << 47)).contains(bytes)  // more than a process can hold is none
      {
        trace.inputs.append((at, .footprint(app, UInt64(bytes))))
      }
    }
    return trace
  }
}

/// Screen Time of iOS: sums by hour, so no events.
struct ScreenTime: TraceFormat {
  let name = "ios-screen-time"
  let table = "ZUSAGETIMEDITEM"

  func read(_ database: Database) throws -> Trace {
    var trace = Trace(format: name)
    let rows = try Row.fetchAll(
      database,
      sql: """
        SELECT ZSTARTDATE, ZBUNDLEIDENTIFIER, ZUSAGETIMEDITEM.ZTOTALTIMEINSECONDS AS seconds FROM ZUSAGETIMEDITEM
        JOIN ZUSAGECATEGORY ON ZUSAGECATEGORY.Z_PK = ZUSAGETIMEDITEM.ZCATEGORY
        JOIN ZUSAGEBLOCK ON ZUSAGEBLOCK.Z_PK = ZUSAGECATEGORY.ZBLOCK ORDER BY ZSTARTDATE, ZUSAGETIMEDITEM.Z_PK
        """)
    for row in rows {
      guard let start = row.seconds("ZSTARTDATE"),
        let app = row.value("ZBUNDLEIDENTIFIER", as: String.self),
        let seconds = row.seconds("seconds")
      else { continue }
      trace.sums.append(Trace.UsageSum(at: start + appleEpoch, app: app, seconds: seconds))
    }
    return trace
  }
}

/// The focus records of macOS.
struct DesktopFocus: TraceFormat {
  let name = "desktop-app-focus"
  let table = "ZOBJECT"

  func read(_ database: Database) throws -> Trace {
    var trace = Trace(format: name)
    let rows = try Row.fetchAll(
      database,
      sql:
        "SELECT ZVALUESTRING, ZSTARTDATE, ZENDDATE FROM ZOBJECT WHERE ZSTREAMNAME = '/app/inFocus' ORDER BY ZSTARTDATE, Z_PK"
    )
    for row in rows {
      guard let app = row.value("ZVALUESTRING", as: String.self), let start = row.seconds("ZSTARTDATE"),
        let end = row.seconds("ZENDDATE")
      else { continue }
      trace.inputs.append((start + appleEpoch, .front(app)))
      trace.inputs.append((max(start, end) + appleEpoch, .left(app)))
    }
    return trace
  }
}

extension Row {
  /// What a cell holds, or nil where that is something else: a subscript of GRDB's would trap on it.
  fileprivate func value<Value: DatabaseValueConvertible>(_ column: String, as type: Value.Type) -> Value? {
    let cell: DatabaseValue? = self[column]
    return cell.flatMap { Value.fromDatabaseValue($0) }
  }

  /// A time that a clock may have said; nil for others, and for what is none.
  fileprivate func seconds(_ column: String, perSecond: Double = 1) -> Double? {
    value(column, as: Double.self).map { $0 / perSecond }.flatMap { abs($0) < 1e11 ? $0 : nil }
  }
}

/// 2001-01-01 in seconds since 1970.
private let appleEpoch = 978_307_200.0
