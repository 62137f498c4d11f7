import OpportuneFuzz
import OpportuneIO
import OpportuneModels

/// All that `opportune fuzz` runs.
public enum FuzzTargets {
  /// The layers above the core, in the order of a listing.
  public static let properties: [any FuzzTarget] = [
    PropertyTarget(ExecutorProperty()),
    PropertyTarget(ArbiterProperty(Arbiter<Int>.self)),
    PropertyTarget(RequestProperty()),
    PropertyTarget(LifecycleProperty()),
    PropertyTarget(StoreProperty()),
    PropertyTarget(ManifestProperty()),
    PropertyTarget(RecordingProperty()),
    PropertyTarget(WayProperty()),
    PropertyTarget(GeoJSONProperty()),
    PropertyTarget(GPSDProperty()),
    PropertyTarget(ArbiterProperty(ForgetfulArbiter.self, name: "canary-arbiter", isCanary: true)),
  ]

  /// With the queues of the core.
  public static let all: [any FuzzTarget] = QueueTarget.all + properties
}

/// The planted bug: one cancellation in a few is forgotten.
struct ForgetfulArbiter: BrokenArbiter {
  var arbiter: Arbiter<Int>
  init(_ policy: DevicePolicy, now: UInt64) { arbiter = Arbiter(policy, now: now) }
  mutating func cancel(_ ticket: Ticket) -> Int? { ticket.number % 4 == 3 ? nil : arbiter.cancel(ticket) }
}
