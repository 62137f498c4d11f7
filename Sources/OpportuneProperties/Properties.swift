import OpportuneFuzz
import OpportuneIO
import OpportuneModels

/// All that `opportune fuzz` runs.
public enum FuzzTargets {
  /// The layers above the core, in the order of a listing.
  public static let properties: [any FuzzTarget] = [
    PropertyTarget(ArbiterProperty(Arbiter<Int>.self)),
    PropertyTarget(LifecycleProperty()),
    PropertyTarget(StoreProperty()),
    PropertyTarget(ManifestProperty()),
    PropertyTarget(RecordingProperty()),
    PropertyTarget(WayProperty()),
    PropertyTarget(GeoJSONProperty()),
    PropertyTarget(ArbiterProperty(ForgetfulArbiter.self, name: "canary-arbiter", isCanary: true)),
  ]

  /// With the queues of the core.
  public static let all: [any FuzzTarget] = QueueTarget.all + properties
}

/// The planted bug: one cancellation in a few is forgotten.
struct ForgetfulArbiter: RequestArbiter {
  private var arbiter: Arbiter<Int>

  init(_ policy: DevicePolicy, now: UInt64) { arbiter = Arbiter(policy, now: now) }
  var queued: [Int] { arbiter.queued }
  var inFlight: [Int] { arbiter.inFlight }
  mutating func addApp(_ app: Int, state: IOState) { arbiter.addApp(app, state: state) }
  mutating func removeApp(_ app: Int) -> [Int] { arbiter.removeApp(app) }
  mutating func setState(_ state: IOState, of app: Int) { arbiter.setState(state, of: app) }
  mutating func submit(_ item: Int, app: Int, cost: Cost, at former: Ticket?) -> Ticket? {
    arbiter.submit(item, app: app, cost: cost, at: former)
  }
  mutating func cancel(_ ticket: Ticket) -> Int? { ticket.number % 4 == 3 ? nil : arbiter.cancel(ticket) }
  mutating func next(now: UInt64) -> Grant? { arbiter.next(now: now) }
  func wakeTime(now: UInt64) -> UInt64? { arbiter.wakeTime(now: now) }
  mutating func abandon(_ grant: Grant) { arbiter.abandon(grant) }
  mutating func finished(_ grant: Grant, sentAt: UInt64, queuedAt: UInt64, now: UInt64) {
    arbiter.finished(grant, sentAt: sentAt, queuedAt: queuedAt, now: now)
  }
}
