import OpportuneApps
import OpportuneScheduler

extension AppHost {
  /// Makes a host whose apps' memory is managed by `memory`. Call ``HostMemory/serve(_:)`` with it
  /// afterwards.
  ///
  /// - Parameters:
  ///   - scheduler: the one with which `memory` was made.
  ///   - policy: validated first.
  ///   - memory: for this host only.
  /// - Throws: `HostError`: `policy`, `scheduler`.
  public init(scheduler: Scheduler, policy: AppsPolicy = .standard, memory: HostMemory) throws(HostError) {
    try self.init(scheduler: scheduler, policy: policy, brokers: [memory])
  }
}
