import Opportune
import OpportuneLocation

/// Fences of one app, the program that reads the crossings, as far as the user lets it know of them.
///
/// The app is in background: what it may have only while it is used goes by way of an alert, and opening that
/// counts as using it until it has the crossing. It asks for its permission where nothing was said yet, once.
/// A value.
struct PermittedFences {
  private(set) var system: LocationSystem
  let identifier: String
  private let app = AppID(0)
  private let fences: [NamedRegion]
  private var names: [RequestID: String] = [:]
  private var hasStarted = false
  private var hasAsked = false

  /// - Parameter purpose: the app's own text in dialogs.
  init(_ identifier: String, fences: [NamedRegion], purpose: String, monitor: MonitorPolicy) throws {
    self.identifier = identifier
    self.fences = fences
    var policy = LocationPolicy.standard
    policy.monitor = monitor
    // Whoever shows a dialog says when it has ended. Reset settings ask again.
    policy.dialogTime = nil
    policy.asksOnce = false
    system = try LocationSystem(policy: policy)
    let keys = [AuthorizationType.always, .whenInUse].map { ($0.usageKey, purpose) }
    system.register(
      app, Manifest(identifier: identifier, usageDescriptions: Dictionary(keys, uniquingKeysWith: { $1 })))
    _ = try system.handle(.app(app, .moved(.background)), at: .zero)
  }

  var status: AuthorizationStatus { system.authorization(of: app) ?? .notDetermined }

  /// Whether crossings are looked for at all.
  var mayMonitor: Bool { system.mayMonitor(app, .regions) }

  func name(of request: RequestID) -> String { names[request] ?? "" }

  /// Goes by what the user chose. What is as before does not take an open question away.
  mutating func apply(_ settings: LocationSettings, at moment: Moment) throws -> [LocationEffect] {
    var told: [LocationEffect] = []
    if settings.isEnabled != system.isEnabled { told += try post(.enabled(settings.isEnabled), at: moment) }
    let chosen = settings.apps[identifier] ?? .notDetermined
    if chosen != status {
      hasAsked = false
      told += try post(.app(app, .setAuthorization(chosen)), at: moment)
    }
    return try told + proceed(at: moment)
  }

  /// - Returns: what is to be shown, kept or told to the reader; the rest is done.
  mutating func handle(_ event: LocationEvent, at moment: Moment) throws -> [LocationEffect] {
    try post(event, at: moment) + proceed(at: moment)
  }

  /// Starts when it may, and asks whether it may.
  private mutating func proceed(at moment: Moment) throws -> [LocationEffect] {
    var told: [LocationEffect] = []
    if mayMonitor, !hasStarted {
      hasStarted = true
      let requests = fences.map { LocationRequest.region(Fence($0.region, dwell: $0.dwell)) }
      for effect in try post(.app(app, .startAll(requests)), at: moment) {
        if case .started(_, let request) = effect {
          names[request] = fences[names.count].name
        } else {
          told.append(effect)
        }
      }
    }
    guard status == .notDetermined, system.isEnabled, !hasAsked else { return told }
    hasAsked = true
    return try told + post(.app(app, .requestAuthorization(.always)), at: moment)
  }

  private mutating func post(_ event: LocationEvent, at moment: Moment) throws -> [LocationEffect] {
    var told: [LocationEffect] = []
    // A fix bears the time when it was taken, which may be a little before what came since.
    for effect in try system.handle(event, at: max(moment, system.now)) {
      if case .app(_, .bringForward) = effect {
        for state in [LifecycleState.active, .background] {
          told += try post(.app(app, .moved(state)), at: moment)
        }
      } else {
        told.append(effect)
      }
    }
    return told
  }
}
