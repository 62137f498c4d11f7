import OpportuneFuzz
import OpportuneIO
import OpportuneModels

/// All that `opportune fuzz` runs.
package enum FuzzTargets {
  /// The layers above the core, in the order of a listing.
  package static let properties: [any FuzzTarget] = [
    PropertyTarget(ExecutorProperty()),
    PropertyTarget(IOSchedulerProperty(IOScheduler<Int>.self)),
    PropertyTarget(RequestProperty()),
    PropertyTarget(LockProperty()),
    PropertyTarget(InversionProperty()),
    PropertyTarget(LockWatchProperty()),
    PropertyTarget(TargetProperty()),
    PropertyTarget(PoolProperty()),
    PropertyTarget(LifecycleProperty()),
    PropertyTarget(StoreProperty()),
    PropertyTarget(ManifestProperty()),
    PropertyTarget(RecordingProperty()),
    PropertyTarget(TraceProperty()),
    PropertyTarget(GeoJSONProperty()),
    PropertyTarget(GPSDProperty()),
    PropertyTarget(HostRequestProperty()),
    PropertyTarget(ClientLineProperty()),
    PropertyTarget(ProgramsProperty()),
    PropertyTarget(IOSchedulerProperty(ForgetfulScheduler.self, name: "canary-io-scheduler", isCanary: true)),
  ]

  /// With the queues of the core.
  package static let all: [any FuzzTarget] = QueueTarget.all + properties
}

/// The planted bug: one cancellation in a few is forgotten.
struct ForgetfulScheduler: BrokenScheduler {
  var scheduler: IOScheduler<Int>
  init(_ policy: DevicePolicy, now: UInt64) { scheduler = IOScheduler(policy, now: now) }
  mutating func cancel(_ ticket: Ticket) -> Int? { ticket.number % 4 == 3 ? nil : scheduler.cancel(ticket) }
}
