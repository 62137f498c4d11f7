internal import COpportune
import Synchronization

/// What a worker tells others about the job it is inside of.
///
/// `sequence` is odd while it is inside one. The worker writes the fields, then the odd number; a reader
/// reads the number, the fields and the number again, and believes them if it was odd and is the same. The
/// fields are atomics only so that a torn reading is none; a reading that was overtaken is thrown away.
///
/// Kernel priority. The monitor may change the running worker's: it claims `change` for the sequence that it
/// read, makes the system call, and records what it did. A worker that ends its job waits for a change that
/// was begun, a system call of less than a microsecond by a thread of the highest class, and so never works
/// on in a class that it does not know of.
final class WorkerReport: Sendable {
  /// What a reader sees.
  struct Reading {
    let sequence: UInt64
    let identity: UInt64
    /// The app's place in the run queue, which stays what it is even if the app is gone.
    let app: OpaquePointer?
    let band: Band
    /// Where its work started, before it was lowered.
    let base: BasePriority
    let rank: Int
    let depth: Int
    let start: UInt64
    /// CPU time of the thread when it was last measured, before this job.
    let cpuBefore: UInt64
    /// Its wait for a CPU then, and its voluntary context switches when it last lay down.
    let waitBefore: UInt64
    let switchesBefore: Int64
  }

  private enum Change: UInt8, AtomicRepresentable { case none, begun, done }

  private let sequence = Atomic<UInt64>(0)
  private let identity = Atomic<UInt64>(0)
  private let app = Atomic<UInt>(0)
  private let place = Atomic<UInt64>(0)  // band, rank, depth, base
  private let start = Atomic<UInt64>(0)
  private let liveDepth = Atomic<Int>(0)
  private let cpuBefore = Atomic<UInt64>(0)
  private let waitBefore = Atomic<UInt64>(0)
  private let switchesBefore = Atomic<Int64>(0)
  private let change = Atomic<Change>(.none)
  private let changedTo = Atomic<UInt64>(0)
  private let thread = Atomic<UInt64>(0)
  private let ordinary = Atomic<UInt64>(0)
  private let ordinaryTime = Atomic<UInt64>(0)
  private let meterAddress = Atomic<UInt>(0)

  deinit {
    if let meter { opp_thread_meter_destroy(meter) }
  }

  // MARK: The worker's

  func start(threadID: Int32, meter: OpaquePointer?) {
    meterAddress.store(UInt(bitPattern: meter), ordering: .relaxed)
    thread.store(UInt64(threadID), ordering: .releasing)  // publishes the meter to who sees the thread
  }

  var meter: OpaquePointer? { OpaquePointer(bitPattern: meterAddress.load(ordering: .relaxed)) }

  func begin(
    identity: UInt64, app: OpaquePointer, band: Band, base: BasePriority, rank: UInt8, depth: Int,
    start: UInt64,
    usage: borrowing SliceUsage
  ) {
    // releasing, each: no field of this job is seen before the even number that ended the last one, which
    // comes first in program order; a later plain store could pass it on Arm. Pairs with the acquiring loads
    // in read().
    self.identity.store(identity, ordering: .releasing)
    self.app.store(UInt(bitPattern: app), ordering: .releasing)
    liveDepth.store(depth, ordering: .releasing)
    place.store(
      UInt64(band.rawValue) | UInt64(rank) << 8 | UInt64(depth) << 16 | UInt64(base.index) << 24,
      ordering: .releasing)
    self.start.store(start, ordering: .releasing)
    cpuBefore.store(usage.cpuAtAnchor, ordering: .releasing)
    waitBefore.store(usage.waitAtAnchor, ordering: .releasing)
    switchesBefore.store(usage.switchesAtAnchor, ordering: .releasing)
    // release publishes the fields to read(). seqCst: before the look at the alarm, which the monitor unarms
    // before it looks here; one of the two sees the other.
    sequence.store(sequence.load(ordering: .relaxed) + 1, ordering: .sequentiallyConsistent)
  }

  /// The job has ended. Returns the kernel priority that the monitor has given the thread meanwhile, if it
  /// did.
  func end() -> KernelPriority? {
    // release: our use of the fields is over.
    sequence.store(sequence.load(ordering: .relaxed) + 1, ordering: .sequentiallyConsistent)
    // seqCst with claim(): either it sees the even number, or we see what it has begun.
    guard change.load(ordering: .sequentiallyConsistent) != .none else { return nil }
    // acquiring: pairs with the monitor's release of `done`.
    while change.load(ordering: .acquiring) == .begun { opp_pause() }
    change.store(.none, ordering: .relaxed)
    let word = changedTo.exchange(0, ordering: .relaxed)
    return word == 0 ? nil : KernelPriority(word: word)
  }

  /// A job has ended that kept the token it began with: neither a hog nor blocked for long.
  func addOrdinary(cpu: UInt64) {
    // relaxed, by its only writer: statistics for the monitor, which does not mind if the two do not match.
    ordinary.store(ordinary.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    ordinaryTime.store(ordinaryTime.load(ordering: .relaxed) &+ cpu, ordering: .relaxed)
  }

  /// How many such jobs there were, and their CPU time in nanoseconds.
  var ordinaryJobs: (count: UInt64, time: UInt64) {
    (ordinary.load(ordering: .relaxed), ordinaryTime.load(ordering: .relaxed))
  }

  /// The demotion of the running job; the monitor may deepen it while the job runs.
  var depth: Int { liveDepth.load(ordering: .relaxed) }

  /// When the running job began, for the worker itself.
  var began: UInt64 { start.load(ordering: .relaxed) }

  // MARK: Others'

  var threadID: Int32 { Int32(truncatingIfNeeded: thread.load(ordering: .acquiring)) }

  /// CPU time of the thread so far, nanoseconds; nil where it is not known.
  var cpuTime: UInt64? {
    var cpu: UInt64 = 0
    guard let meter, opp_thread_meter_cpu(meter, &cpu) == 0 else { return nil }
    return cpu
  }

  /// What the worker is inside of, or nil where it is inside of nothing or was too quick.
  func read() -> Reading? {
    let first = sequence.load(ordering: .sequentiallyConsistent)
    guard first & 1 == 1 else { return nil }
    // acquiring: the second look at the number comes after them.
    let placed = place.load(ordering: .acquiring)
    let reading = Reading(
      sequence: first, identity: identity.load(ordering: .acquiring),
      app: OpaquePointer(bitPattern: app.load(ordering: .acquiring)),
      band: Band(rawValue: UInt8(truncatingIfNeeded: placed)) ?? .background,
      base: BasePriority(index: UInt8(placed >> 24 & 0xFF)),
      rank: Int(placed >> 8 & 0xFF), depth: Int(placed >> 16 & 0xFF), start: start.load(ordering: .acquiring),
      cpuBefore: cpuBefore.load(ordering: .acquiring), waitBefore: waitBefore.load(ordering: .acquiring),
      switchesBefore: switchesBefore.load(ordering: .acquiring))
    return sequence.load(ordering: .relaxed) == first ? reading : nil
  }

  /// Grows with each job that is begun or ended.
  var count: UInt64 { sequence.load(ordering: .relaxed) }

  func isStillInside(_ reading: Reading) -> Bool {
    sequence.load(ordering: .sequentiallyConsistent) == reading.sequence
  }

  /// The monitor's: what the job submits from now on starts at this depth. If the job has just ended the next
  /// one may be taken for demoted, until it ends. Returns whether it was inside, and is charged for it no
  /// more.
  func deepen(to depth: Int, during reading: Reading) -> Bool {
    guard isStillInside(reading) else { return false }
    liveDepth.store(depth, ordering: .relaxed)
    return true
  }

  /// The monitor's: gives the thread another kernel priority, if it is still inside that job.
  func setPriority(_ priority: KernelPriority, during reading: Reading) -> Bool {
    guard change.load(ordering: .acquiring) != .begun else { return false }
    change.store(.begun, ordering: .sequentiallyConsistent)
    guard isStillInside(reading) else {
      // Nothing was changed. If the worker has seen the claim it waits for this.
      change.store(changedTo.load(ordering: .relaxed) == 0 ? .none : .done, ordering: .releasing)
      return false
    }
    let agreed = priority.apply(to: threadID)
    if agreed { changedTo.store(priority.word, ordering: .relaxed) }
    change.store(.done, ordering: .releasing)
    return agreed
  }
}

extension KernelPriority {
  /// All of it in one word that is not 0.
  fileprivate var word: UInt64 {
    let kind: UInt64 =
      switch policy {
      case .normal: 1
      case .idle: 2
      case .roundRobin: 3
      }
    return kind | (retires ? 4 : 0) | UInt64(UInt8(bitPattern: Int8(clamping: nice))) << 8
      | UInt64(UInt8(clamping: realTimePriority)) << 16 | sliceNanoseconds << 24
  }

  fileprivate init(word: UInt64) {
    let policy: Policy =
      switch word & 3 {
      case 2: .idle
      case 3: .roundRobin
      default: .normal
      }
    self.init(
      policy: policy, nice: Int(Int8(bitPattern: UInt8(truncatingIfNeeded: word >> 8))),
      sliceNanoseconds: word >> 24, realTimePriority: Int(word >> 16 & 0xFF), retires: word & 4 != 0)
  }
}
