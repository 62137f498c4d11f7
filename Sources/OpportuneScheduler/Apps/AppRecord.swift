internal import COpportune
import Synchronization

/// What the monitor and the statistics know of an app without keeping it alive. Not a weak reference: the
/// first of those would make every retain and release of the app, several for each of its jobs, take the
/// runtime's slow way.
final class AppRecord: @unchecked Sendable {
  let name: String
  let number: UInt64
  /// Its places in the run queue. Once the app is gone another may be there; their memory stays until the
  /// engine goes.
  let place: OpaquePointer
  let runner: OpaquePointer
  let statistics: StatisticsBlock
  private let gone = Atomic<Bool>(false)
  /// Slices of this app that run in the place of another.
  let donatedInside = Atomic<Int>(0)
  /// Waits of other apps' foreground work for this one, which are jobs that are queued on its strands, and
  /// ``AppTask/value`` of its tasks: in the low half how many have begun and not ended, in the high half how
  /// many have ended.
  private let waits = Atomic<UInt64>(0)
  /// The number of the app that began the last.
  private let lastWaiter = Atomic<UInt64>(0)

  init(name: String, number: UInt64, place: OpaquePointer, runner: OpaquePointer, statistics: StatisticsBlock)
  {
    self.name = name
    self.number = number
    self.place = place
    self.runner = runner
    self.statistics = statistics
  }

  // relaxed: who misses it sees the app's last numbers once more.
  var isGone: Bool { gone.load(ordering: .relaxed) }
  func retire() { gone.store(true, ordering: .relaxed) }

  /// Work of the app of this number begins to wait for this one.
  func beginWait(of number: UInt64) {
    lastWaiter.store(number, ordering: .relaxed)  // published by the next
    // seqCst: before the look whether this app is suspended; who suspends it sets that, and then looks here.
    waits.wrappingAdd(1, ordering: .sequentiallyConsistent)
  }

  /// One less that has not ended, one more that has. relaxed: who looks for waits looks again.
  func endWait() { waits.wrappingAdd((1 << 32) - 1, ordering: .relaxed) }

  /// Who waits for it, by its number: the last that came, where there are several.
  var waiter: UInt64? {
    // seqCst: see beginWait().
    UInt32(truncatingIfNeeded: waits.load(ordering: .sequentiallyConsistent)) > 0
      ? lastWaiter.load(ordering: .relaxed) : nil
  }

  /// How many waits have ended, modulo 2^32.
  var endedWaits: UInt64 { waits.load(ordering: .relaxed) >> 32 }

  var band: Band { Band(rawValue: opp_app_state_read(place).band) ?? .background }
}
