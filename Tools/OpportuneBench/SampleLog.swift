import OpportuneBase
import Synchronization

/// One interactive job, from its intended start on. Times in nanoseconds of `CLOCK_MONOTONIC`; 0 is "not
/// yet".
struct Sample: Sendable, Equatable {
  var intended: Nanoseconds
  var submitted: Nanoseconds
  var started: Nanoseconds
  var finished: Nanoseconds
}

/// What happened to the interactive jobs of one window.
///
/// Room is made beforehand: the generator claims a slot, the job stamps it, nobody waits for anybody. A job
/// that runs after the window's end still finds its slot, because its closure keeps the log alive.
final class SampleLog: @unchecked Sendable {
  private struct Slot: ~Copyable {
    let intended = Atomic<UInt64>(0)
    let submitted = Atomic<UInt64>(0)
    let started = Atomic<UInt64>(0)
    let finished = Atomic<UInt64>(0)
  }

  private let slots: UnsafeMutablePointer<Slot>
  private let capacity: Int
  private let used = Atomic<Int>(0)

  init(capacity: Int) {
    self.capacity = max(1, capacity)
    slots = .allocate(capacity: self.capacity)
    for index in 0..<self.capacity { (slots + index).initialize(to: Slot()) }
  }

  deinit {
    slots.deinitialize(count: capacity)
    slots.deallocate()
  }

  /// A slot for a job that is submitted now (0: never), or nil when the log is full.
  func open(intended: Nanoseconds, submitted: Nanoseconds) -> Int? {
    let index = used.add(1, ordering: .relaxed).oldValue
    guard index < capacity else { return nil }
    slots[index].intended.store(intended, ordering: .relaxed)
    slots[index].submitted.store(submitted, ordering: .releasing)
    return index
  }

  func start(_ index: Int, at time: Nanoseconds) { slots[index].started.store(time, ordering: .releasing) }
  func finish(_ index: Int, at time: Nanoseconds) { slots[index].finished.store(time, ordering: .releasing) }

  /// All samples so far.
  func samples() -> [Sample] {
    (0..<min(capacity, used.load(ordering: .acquiring))).map { index in
      Sample(
        intended: slots[index].intended.load(ordering: .relaxed),
        submitted: slots[index].submitted.load(ordering: .acquiring),
        started: slots[index].started.load(ordering: .acquiring),
        finished: slots[index].finished.load(ordering: .acquiring))
    }
  }
}
