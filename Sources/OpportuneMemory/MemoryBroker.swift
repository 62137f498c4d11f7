internal import COpportune

/// The broker that arbitrates memory between apps: purgeable regions, ledgers, pressure, and removals.
///
/// All members may be used from any thread. None blocks, except that ``levels()`` starts a thread.
public final class MemoryBroker: Sendable {
  let core: BrokerCore
  private let monitor: PressureMonitor

  /// Makes a broker.
  ///
  /// - Parameters:
  ///   - configuration: validated here.
  ///   - remove: called with an app to hibernate or terminate, and the reason. It runs on the thread that
  ///     needed memory, which continues when it returns; so pass the removal to the lifecycle and return
  ///     soon. Each app is passed once, until its standing is set again.
  /// - Throws: ``MemoryError``: `configuration` for a budget of 0 bytes or a removal policy that is out of
  ///   range, or `system`.
  public convenience init(
    configuration: MemoryConfiguration = MemoryConfiguration(),
    remove: @escaping @Sendable (Removal) -> Void = { _ in }
  ) throws(MemoryError) {
    try self.init(configuration, remove: remove, clock: { opp_now_ns() })
  }

  /// - Parameter clock: monotonic nanoseconds, for the policy.
  package init(
    _ configuration: MemoryConfiguration, remove: @escaping @Sendable (Removal) -> Void,
    clock: @escaping @Sendable () -> UInt64
  ) throws(MemoryError) {
    if case .budget(0) = configuration.limit { throw .range("the budget", "0 bytes", "more than 0") }
    if let policy = configuration.removal as? RemovalPolicy { try policy.validate() }
    core = try BrokerCore(configuration, clock: clock, remove: remove)
    monitor = try PressureMonitor(core)
  }

  deinit { monitor.stop() }

  /// Makes the memory of an app. Call it once for an app: the broker's record of it is kept as long as the
  /// broker.
  public func makeMemory(named name: String, standing: AppStanding = .active) -> AppMemory {
    AppMemory(core.add(name, standing), core)
  }

  // MARK: Ledgers

  /// The sum of all apps' ledgers: what they have allocated here, and what they report. Memory from `malloc`
  /// is in no ledger; see ``MemoryMetricsReporter`` for the process as a whole. (R-MEM-15)
  public var ledger: MemoryLedger { core.total() }

  /// Each app's ledger by number, and their sum, from one walk, so that they are consistent. (R-MEM-15)
  public func ledgers() -> (apps: [UInt32: MemoryLedger], total: MemoryLedger) {
    let apps = core.ledgers().mapValues(\.ledger)
    return (apps, apps.values.reduce(MemoryLedger(), +))
  }

  /// The number and the bytes of regions taken since the broker was made.
  public var purges: (regions: UInt64, bytes: UInt64) {
    (core.purges.load(ordering: .relaxed), core.purgedBytes.load(ordering: .relaxed))
  }

  // MARK: Pressure

  /// How much memory there is and how much of it is in use; `nil` where the kernel does not report it.
  public var reading: MemoryReading? { core.reading(of: core.total()) }

  /// Releases volatile regions in the configured order: of suspended apps first, and never of the active one.
  ///
  /// - Parameters:
  ///   - bytes: how many bytes to release; only whole regions are released.
  ///   - mode: how to release them; `nil` is as configured.
  /// - Returns: the bytes released; fewer than wanted where no more are volatile.
  @discardableResult
  public func purge(_ bytes: UInt64, mode: PurgeMode? = nil) -> UInt64 {
    core.purge(bytes, mode ?? core.configuration.mode)
  }

  /// Brings use below the critical point, if it is reached: by purging, and where that is not enough by
  /// removing apps.
  ///
  /// Under a budget, the apps' allocations do this by themselves. While ``levels()`` is in use, the monitor
  /// does. (R-MEM-01)
  @discardableResult
  public func relieve() -> Relief { core.relieve() }

  /// Asks for the hibernation of apps that have been idle for longer than the policy allows. Call it from
  /// time to time. (R-MEM-08)
  @discardableResult
  public func removeOverdue() -> [Removal] { core.removeOverdue() }

  /// The current level, and then each change of it. A slow reader gets the latest.
  ///
  /// The first call starts a thread that watches memory. Three things wake it:
  /// - The apps' own allocations, when a point may be reached.
  /// - The kernel's alarm, once tasks have stalled for memory for 150 ms of 2 s.
  /// - A timer. While the level is above normal it reads each second. Other programs and `malloc` fill the
  ///   machine's memory without notice until a task stalls. So the thread also reads once a second for each
  ///   60th of all memory that is left until the next point: each 30 s with memory empty, each second near
  ///   the point. Under a budget there is no such timer, and an idle program is never woken.
  ///
  /// At the critical level the thread calls ``relieve()``. (R-MEM-01)
  ///
  /// - Throws: ``MemoryError`` with code `system` where the kernel refuses a thread.
  public func levels() throws(MemoryError) -> AsyncStream<PressureLevel> { try monitor.levels() }
}
