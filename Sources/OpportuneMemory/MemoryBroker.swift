internal import COpportune

/// The one place that arbitrates memory between apps: purgeable regions, ledgers, pressure, and who is
/// removed.
///
/// All members may be used from any thread, and but for ``levels()``, which starts a thread, none waits for
/// another.
public final class MemoryBroker: Sendable {
  let core: BrokerCore
  private let monitor: PressureMonitor

  /// - Parameters:
  ///   - configuration: checked here.
  ///   - remove: is told which app to hibernate or terminate, and why, on the thread that needed memory,
  ///     which goes on when it returns: hand it to the lifecycle and return soon. An app is asked for once,
  ///     until its standing is set again.
  /// - Throws: ``MemoryError``: `configuration` for a budget of 0 bytes or a removal policy that is out of
  ///   range, or `system`.
  public convenience init(
    configuration: MemoryConfiguration = MemoryConfiguration(),
    remove: @escaping @Sendable (Removal) -> Void = { _ in }
  ) throws(MemoryError) {
    try self.init(configuration, remove: remove, clock: { opp_now_ns() })
  }

  /// - Parameter clock: nanoseconds that never go back, which policy looks at.
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

  /// The memory of an app. Call it once for an app: what the broker knows of it is kept as long as the
  /// broker.
  public func makeMemory(named name: String, standing: AppStanding = .active) -> AppMemory {
    AppMemory(core.add(name, standing), core)
  }

  // MARK: Ledgers

  /// What all apps hold of what they got here, and what they report. Memory that they have from `malloc` is
  /// in no ledger; see ``MemoryMetricsReporter`` for the process as a whole. (R-MEM-15)
  public var ledger: MemoryLedger { core.total() }

  /// What each app holds, by its number, and the sum: from one walk, so they agree with each other.
  /// (R-MEM-15)
  public func ledgers() -> (apps: [UInt32: MemoryLedger], total: MemoryLedger) {
    let apps = core.ledgers().mapValues(\.ledger)
    return (apps, apps.values.reduce(MemoryLedger(), +))
  }

  /// Regions that were taken, and their bytes, since the broker was made.
  public var purges: (regions: UInt64, bytes: UInt64) {
    (core.purges.load(ordering: .relaxed), core.purgedBytes.load(ordering: .relaxed))
  }

  // MARK: Pressure

  /// How much memory there is and how much of it is in use; `nil` where the kernel does not say.
  public var reading: MemoryReading? { core.reading(of: core.total()) }

  /// Gives back volatile regions, in the order of the configuration: of suspended apps first, and never of
  /// the active one.
  ///
  /// - Parameters:
  ///   - bytes: as many as are wanted; whole regions go.
  ///   - mode: `nil`: as configured.
  /// - Returns: bytes given back; fewer where no more are volatile.
  @discardableResult
  public func purge(_ bytes: UInt64, mode: PurgeMode? = nil) -> UInt64 {
    core.purge(bytes, mode ?? core.configuration.mode)
  }

  /// Brings use below the critical point, if it is reached: by purging, and where that is not enough by
  /// removing apps. Memory that is asked for from the apps' own calls does this by itself under a budget, and
  /// the monitor does it while somebody listens to ``levels()``. (R-MEM-01)
  @discardableResult
  public func relieve() -> Relief { core.relieve() }

  /// Asks for the hibernation of apps that have been idle for longer than the policy allows. Call it now and
  /// then. (R-MEM-08)
  @discardableResult
  public func removeOverdue() -> [Removal] { core.removeOverdue() }

  /// The level now, and then each change of it, the latest where the reader is slow.
  ///
  /// From the first call on a thread watches. It is woken by the apps' own allocations when a point may be
  /// reached, and by the kernel's alarm once tasks have stalled for memory for 150 ms of 2 s; while the level
  /// is above normal it reads again each second. What fills the machine's memory otherwise, as other programs
  /// and `malloc`, tells nobody until somebody stalls: it is looked at once a second for each 60th of all
  /// memory that is left until the next point, so each 30 s with memory empty and each second near the point.
  /// Under a budget that is not needed, and an idle program is never woken. At the critical level the thread
  /// does ``relieve()``. (R-MEM-01)
  ///
  /// - Throws: ``MemoryError`` with code `system` where the kernel has no thread.
  public func levels() throws(MemoryError) -> AsyncStream<PressureLevel> { try monitor.levels() }
}
