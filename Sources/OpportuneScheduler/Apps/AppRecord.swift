internal import COpportune
import Synchronization

/// What the monitor and the statistics keep of an app without retaining it.
///
/// It is not a weak reference. The first weak reference to an app would move its counts to a side table, and
/// every retain and release, several for each job, would take the runtime's slow path.
final class AppRecord: @unchecked Sendable {
  let name: String
  let number: UInt64
  /// The app's `opp_app`s in the C core. After the app's end another app may reuse them; their memory is kept
  /// until the engine is freed.
  let raw: OpaquePointer
  let runner: OpaquePointer
  let statistics: StatisticsBlock
  private let gone = Atomic<Bool>(false)
  /// Made with the app's first target.
  let requests = AtomicLazyReference<RequestMeter>()
  /// Number of slices of this app that run from the queue of a donor.
  let donatedInside = Atomic<Int>(0)
  /// Waits of other apps' foreground work for this app: jobs queued on its strands, and ``AppTask/value`` of
  /// its tasks. The low 32 bits count the waits that have begun and not ended, the high 32 bits those that
  /// have ended.
  private let waits = Atomic<UInt64>(0)
  /// The number of the app that began the last wait.
  private let lastWaiter = Atomic<UInt64>(0)

  init(name: String, number: UInt64, raw: OpaquePointer, runner: OpaquePointer, statistics: StatisticsBlock) {
    self.name = name
    self.number = number
    self.raw = raw
    self.runner = runner
    self.statistics = statistics
  }

  // relaxed: a reader that sees the old value reads the app's last counters once more.
  var isGone: Bool { gone.load(ordering: .relaxed) }
  func retire() { gone.store(true, ordering: .relaxed) }

  /// Counts that work of the app with this number begins to wait for this app.
  func beginWait(of number: UInt64) {
    lastWaiter.store(number, ordering: .relaxed)  // published by the next store
    // seqCst: the caller reads afterwards whether this app is suspended. suspend() sets that, then reads
    // `waits`.
    waits.wrappingAdd(1, ordering: .sequentiallyConsistent)
  }

  /// Moves one wait from begun to ended. relaxed: the monitor reads the count again later.
  func endWait() { waits.wrappingAdd((1 << 32) - 1, ordering: .relaxed) }

  /// The number of the app that waits for this one; of several, the one that came last.
  var waiter: UInt64? {
    // seqCst: pairs with beginWait().
    UInt32(truncatingIfNeeded: waits.load(ordering: .sequentiallyConsistent)) > 0
      ? lastWaiter.load(ordering: .relaxed) : nil
  }

  /// How many waits have ended, modulo 2^32.
  var endedWaits: UInt64 { waits.load(ordering: .relaxed) >> 32 }

  /// Band and suspension, read together.
  var standing: (band: Band, isSuspended: Bool) {
    let state = opp_app_state_read(raw)
    return (Band(rawValue: state.band) ?? .background, state.suspended)
  }
  var band: Band { standing.band }
}
