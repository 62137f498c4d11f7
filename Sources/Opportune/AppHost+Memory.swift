import OpportuneApps
import OpportuneScheduler

extension AppHost {
  /// A host whose apps' memory is looked after. Then call ``HostMemory/serve(_:)`` with it.
  ///
  /// - Parameters:
  ///   - scheduler: the one that `memory` was made with.
  ///   - policy: checked first.
  ///   - memory: for this host alone.
  /// - Throws: ``HostError``: `policy`, `scheduler`.
  public init(scheduler: Scheduler, policy: AppsPolicy = .standard, memory: HostMemory) throws(HostError) {
    try self.init(scheduler: scheduler, policy: policy, brokers: [memory])
  }
}
