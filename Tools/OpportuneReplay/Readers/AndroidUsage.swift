import GRDB

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
    var screen = ActivityStack()
    /// The services of each app that run in the foreground are one assertion.
    var services: [String: (serial: Int64, count: Int)] = [:]
    var serial: Int64 = 0
    var last: Double?
    var isOff = false
    func goOff(_ at: Double) {
      screen.clear(at)
      services = [:]
      trace.inputs.append((at, .shutdown))
    }
    while let row = try rows.next() {
      guard let at = row.seconds("timestamp", perSecond: 1000), let type = row.value("type", as: Int64.self),
        let app = row.value("package_name", as: String.self)
      else { continue }
      let instance = row.value("instance_id", as: Int64.self) ?? 0
      switch type {
      case 1: screen.resume(app, instance, at)
      // Some activities are stopped without having been paused.
      case 2, 23: screen.end(app, instance, at)
      case 12: trace.inputs.append((at, .notification(app)))
      case 19:
        if let service = services[app] {
          services[app] = (service.serial, service.count + 1)
        } else {
          serial += 1
          services[app] = (serial, 1)
          trace.inputs.append((at, .assertion(app, serial, begins: true)))
        }
      case 20:
        guard let service = services[app] else { break }
        services[app] = service.count > 1 ? (service.serial, service.count - 1) : nil
        if service.count == 1 { trace.inputs.append((at, .assertion(app, service.serial, begins: false))) }
      case 26:
        goOff(at)
        isOff = true
      default:
        // It starts. Where it did not say that it shuts down, it ran no longer than is recorded.
        if !isOff { goOff(last ?? at) }
        isOff = false
      }
      last = at
    }
    screen.endAbsence(.infinity)
    trace.inputs += screen.inputs
    return trace
  }
}

/// Who is in front, of the activities that are resumed.
private struct ActivityStack {
  /// An app that goes from one of its activities to another has none resumed for a moment: up to a quarter of
  /// a second is seen, and after more than a second somebody else was looked at, or nobody.
  private static let handover = 1.0

  private(set) var inputs: [(at: Double, input: Trace.Input)] = []
  /// The last one last. Two are, where two are seen: on two screens, or side by side.
  private var resumed: [(app: String, instance: Int64)] = []
  private var front: String?
  /// Since when the app in front has no activity that is resumed.
  private var absent: Double?

  mutating func resume(_ app: String, _ instance: Int64, _ at: Double) {
    endAbsence(at)
    resumed.removeAll { $0 == (app, instance) }
    resumed.append((app, instance))
    if app != front {
      if let front, let absent { inputs.append((absent, .left(front))) }
      inputs.append((at, .front(app)))
      front = app
    }
    absent = nil
  }

  mutating func end(_ app: String, _ instance: Int64, _ at: Double) {
    endAbsence(at)
    resumed.removeAll { $0 == (app, instance) }
    if app == front, absent == nil, !resumed.contains(where: { $0.app == app }) { absent = at }
  }

  mutating func clear(_ at: Double) {
    endAbsence(.infinity)
    (resumed, front, absent) = ([], nil, nil)
  }

  /// Whoever went for longer than it takes to go on has left, and who is seen beside it is in front.
  mutating func endAbsence(_ at: Double) {
    guard let app = front, let since = absent, at - since > Self.handover else { return }
    inputs.append((since, .left(app)))
    (front, absent) = (resumed.last?.app, nil)
    if let front { inputs.append((since, .front(front))) }
  }
}
