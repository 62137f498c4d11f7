import GRDB
import OpportuneApps

/// The power log of iOS. Its state rows are the expected result; screen, process starts, assertions and
/// pushes are inputs.
struct PowerLog: TraceFormat {
  let name = "ios-powerlog"
  let table = "PLApplicationAgent_EventForward_Application"

  /// Bits as they are commonly read; the vendor does not document them.
  private static let states: [Int64: LifecycleState.Operational] = [
    1: .terminated, 2: .suspended, 4: .background, 8: .foreground,
  ]

  /// The home screen, which shows all of these.
  private static let home = "com.apple.springboard"
  private static let partsOfHome: Set = [
    "com.apple.lock-screen", "com.apple.control-center", "com.apple.notification-center",
    "com.apple.today-view",
  ]

  func read(_ database: Database) throws -> Trace {
    let clock = try PowerLogClock(database)
    var processes = PowerLogProcesses(boots: clock.boots)
    var trace = Trace(format: name)
    for (at, row) in try database.log(table, ["Identifier", "pid", "State"]) {
      guard let app = row.value("Identifier", as: String.self),
        let state = Self.states[row.value("State", as: Int64.self) ?? 0]
      else { continue }
      trace.expectations.append(Trace.Expectation(at: at, app: app, state: state))
      if let process = row.value("pid", as: Int64.self) {
        processes.note(process, at, app, hasEnded: state == .terminated)
      }
    }
    let listed = try database.log(
      "PLProcessMonitorAgent_EventForward_ProcessID", ["PID", "BundleID", "ProcessName"])
    for (at, row) in listed {
      // What has no bundle is no app.
      guard let process = row.value("PID", as: Int64.self),
        let name = row.value("BundleID", as: String.self) ?? row.value("ProcessName", as: String.self)
      else { continue }
      processes.note(process, at, name)
    }
    let known = Set(trace.expectations.map(\.app))
    func app(of process: Int64, _ at: Double) -> String? {
      processes.name(of: process, at).flatMap { known.contains($0) ? $0 : nil }
    }

    // All processes are listed again whenever the log starts anew.
    var started: Set<PowerLogProcesses.Process> = []
    for (at, row) in listed {
      guard let process = row.value("PID", as: Int64.self), let app = app(of: process, at) else { continue }
      if started.insert(processes.process(process, at)).inserted { trace.inputs.append((at, .started(app))) }
    }
    trace.inputs += try screen(database, clock)
    trace.inputs += try assertions(database, clock, app)
    for (at, row) in try database.log("PLPushAgent_EventPoint_ReceivedPush", ["BundleID"]) {
      if let app = row.value("BundleID", as: String.self), known.contains(app) {
        trace.inputs.append((at, .notification(app)))
      }
    }
    let sizes = "PLApplicationAgent_EventBackward_ApplicationMemory"
    for (at, row) in try database.log(sizes, ["AppBundleId", "SuspendedMemory"]) {
      if let app = row.value("AppBundleId", as: String.self),
        let bytes = row.value("SuspendedMemory", as: Int64.self),
        (1..<Int64(1 << 47)).contains(bytes)  // more than a process can hold is none
      {
        trace.inputs.append((at, .footprint(app, UInt64(bytes))))
      }
    }
    // As a boot is seen, the device has run no longer than is recorded before.
    let times = trace.inputs.map(\.at) + trace.expectations.map(\.at)
    for boot in clock.boots {
      if let last = times.filter({ $0 < boot }).max() { trace.inputs.append((last, .shutdown)) }
    }
    if abs(clock.shown) >= 1 {
      let seconds = Int(abs(clock.shown).rounded())
      trace.notes.append(
        "the log's clock is \(seconds) s \(clock.shown < 0 ? "ahead of" : "behind") the device's, by which times are given"
      )
    }
    for index in trace.inputs.indices { trace.inputs[index].at += clock.shown }
    for index in trace.expectations.indices { trace.expectations[index].at += clock.shown }
    return trace
  }

  /// Who is in front, until the screen goes dark.
  private func screen(_ database: Database, _ clock: PowerLogClock) throws -> [(
    at: Double, input: Trace.Input
  )] {
    var rows: [(at: Double, shown: String?)] = []
    for (at, row) in try database.log("PLScreenStateAgent_EventForward_ScreenState", ["bundleID"]) {
      guard let name = row.value("bundleID", as: String.self) else { continue }
      rows.append((at, name.hasPrefix(Self.home) || Self.partsOfHome.contains(name) ? Self.home : name))
    }
    for (at, row) in try database.log("PLSpringBoardAgent_EventForward_SBBlank", ["Blanked"])
    where row.value("Blanked", as: Int64.self) == 1 {
      rows.append((at, nil))
    }
    rows = rows.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element)
    var front: String?
    var boot = 0
    var inputs: [(at: Double, input: Trace.Input)] = []
    for (at, shown) in rows {
      if clock.boot(at) != boot { (front, boot) = (nil, clock.boot(at)) }
      guard shown != front else { continue }
      inputs += shown.map { [(at, .front($0))] } ?? front.map { [(at, .left($0))] } ?? []
      front = shown
    }
    return inputs
  }

  /// Who is kept running, from when to when. Rows are written together, up to an hour late, each with when it
  /// was by the device's clock; those of what is held still come again with the next.
  private func assertions(_ database: Database, _ clock: PowerLogClock, _ app: (Int64, Double) -> String?)
    throws
    -> [(at: Double, input: Trace.Input)]
  {
    let rows = try database.log(
      "PLPowerAssertionAgent_EventForward_Assertion",
      ["Action", "pid", "AssertionOnBehalfOfPID", "GlobalUniqueID", "timestampActionOffset"])
    let ages = rows.map { $0.row.seconds("timestampActionOffset", perSecond: 1000) }
    var newest: [Double: Double] = [:]
    for (row, age) in zip(rows, ages) { if let age { newest[row.at] = max(newest[row.at] ?? age, age) } }
    let acts = zip(rows, ages).map { row, age in
      guard let age else { return (at: row.at, row: row.row) }
      let offset = clock.offset(asWritten: row.at, newest: newest[row.at] ?? age)
      return (at: min(row.at, row.at + age - offset), row: row.row)
    }
    var held: [Int64: String] = [:]
    var boot = 0
    var inputs: [(at: Double, input: Trace.Input)] = []
    for (at, row) in acts.enumerated().sorted(by: { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) })
      .map(\.element)
    {
      if clock.boot(at) != boot { (held, boot) = ([:], clock.boot(at)) }
      guard let action = row.value("Action", as: Int64.self),
        let number = row.value("GlobalUniqueID", as: Int64.self)
      else { continue }
      switch action {
      case 0:
        let process = row.value("AssertionOnBehalfOfPID", as: Int64.self) ?? row.value("pid", as: Int64.self)
        guard held[number] == nil, let app = process.flatMap({ app($0, at) }) else { continue }
        held[number] = app
        inputs.append((at, .assertion(app, number, begins: true)))
      case 4:
        if let app = held.removeValue(forKey: number) {
          inputs.append((at, .assertion(app, number, begins: false)))
        }
      default: break
      }
    }
    return inputs
  }
}

/// The clock of a power log, which is never set: its times order the rows, also of before and after the
/// device's clock was set.
struct PowerLogClock {
  /// When the device started, in order.
  let boots: [Double]
  /// The device's clock less this one, in seconds, from when on; noted some time after the device's clock was
  /// set.
  private let offsets: [(from: Double, offset: Double)]

  init(_ database: Database) throws {
    offsets = try database.log("PLStorageOperator_EventForward_TimeOffset", ["system"])
      .compactMap { row in row.row.seconds("system").map { (row.at, $0) } }
    // Of one start there are several rows, as the log begins anew.
    boots = try database.log("PLConfigAgent_EventNone_Config", ["DeviceBootTime"])
      .compactMap { row in row.row.seconds("DeviceBootTime").flatMap { $0 <= row.at ? $0 : nil } }.sorted()
      .reduce(into: []) { boots, boot in if boot - (boots.last ?? -.infinity) > 120 { boots.append(boot) } }
  }

  /// What makes UTC of all its times: the newest offset, for all, so that none changes the order.
  var shown: Double { offsets.last?.offset ?? 0 }

  /// How many starts came before.
  func boot(_ at: Double) -> Int { boots.count { $0 <= at } }

  /// The offset that rows were written with whose newest was so many seconds from then, by the device's
  /// clock: the one noted last, or one noted within a minute after, if only that has the newest just before
  /// it was written.
  func offset(asWritten at: Double, newest: Double) -> Double {
    let next = offsets.firstIndex { $0.from > at } ?? offsets.endIndex
    let noted = offsets[..<next].last ?? offsets.first
    let following = next < offsets.endIndex && offsets[next].from - at < 60 ? offsets[next].offset : nil
    return [noted?.offset, following].compactMap { $0 }.filter { $0 > newest - 10 }.min() ?? noted?.offset
      ?? 0
  }
}

/// What runs as which process. Numbers begin anew with each start of the device, and come again.
struct PowerLogProcesses {
  struct Process: Hashable {
    var boot: Int
    var number: Int64
  }

  private struct Sight {
    var at: Double
    var name: String
    var hasEnded: Bool
  }

  let boots: [Double]
  /// Not in order.
  private var seen: [Process: [Sight]] = [:]

  init(boots: [Double]) { self.boots = boots }

  func process(_ number: Int64, _ at: Double) -> Process {
    Process(boot: boots.count { $0 <= at }, number: number)
  }

  mutating func note(_ number: Int64, _ at: Double, _ name: String, hasEnded: Bool = false) {
    seen[process(number, at), default: []].append(Sight(at: at, name: name, hasEnded: hasEnded))
  }

  /// As what it was seen last; if that had ended, or there is none, as what it is seen next: processes are
  /// listed minutes late.
  func name(of number: Int64, _ at: Double) -> String? {
    let seen = seen[process(number, at)] ?? []
    let last = seen.filter { $0.at <= at }.max { $0.at < $1.at }
    if let last, !last.hasEnded { return last.name }
    return seen.filter { $0.at > at }.min { $0.at < $1.at }?.name
  }
}

extension Database {
  /// The rows of a table by the clock of the log, with those of the columns that it has; none where there is
  /// no such table.
  fileprivate func log(_ table: String, _ columns: [String]) throws -> [(at: Double, row: Row)] {
    guard try tableExists(table) else { return [] }
    let there = Set(try self.columns(in: table).map(\.name))
    let columns = ["timestamp"] + columns.filter(there.contains)
    return try Row.fetchAll(
      self, sql: "SELECT \(columns.joined(separator: ", ")) FROM \(table) ORDER BY timestamp, ID"
    )
    .compactMap { row in row.seconds("timestamp").map { ($0, row) } }
  }
}
