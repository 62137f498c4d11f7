internal import COpportune
import Synchronization

/// What a worker publishes about its current job: a seqlock.
///
/// `sequence` is odd while the worker is inside a job. The worker writes the fields, then the odd number. A
/// reader reads the number, the fields and the number again; the reading is valid if the number was odd and
/// has not changed. The fields are atomics only to avoid a data race; a reading that was overtaken is
/// discarded.
///
/// Kernel priority. The monitor may change the priority of the running worker. It claims `change` for the
/// sequence number that it read, makes the system call, and records the new priority. A worker that ends its
/// job waits for a change that has begun: one system call of less than a microsecond, by a thread of the
/// highest class. So the worker never continues at a priority that it does not know.
final class WorkerReport: Sendable {
  /// One consistent reading of the report.
  struct Reading {
    let sequence: UInt64
    let identity: UInt64
    /// The job's `opp_app`. The pointer remains valid after the app's end.
    let app: OpaquePointer?
    let band: Band
    /// The base priority of the job, before demotion.
    let base: BasePriority
    let rank: Int
    let depth: Int
    /// The job began in the real-time foreground.
    let isRealTime: Bool
    let start: UInt64
    /// CPU time of the thread when it was last measured, before this job.
    let cpuBefore: UInt64
    /// The thread's run-queue wait and short waits at that time, and its voluntary context switches when it
    /// was last parked.
    let waitBefore: UInt64
    let switchesBefore: Int64
  }

  private enum Change: UInt8, AtomicRepresentable { case none, begun, done }

  private let sequence = Atomic<UInt64>(0)
  private let identity = Atomic<UInt64>(0)
  private let app = Atomic<UInt>(0)
  private let place = Atomic<UInt64>(0)  // band, rank, depth, base, real-time
  private let start = Atomic<UInt64>(0)
  private let liveDepth = Atomic<Int>(0)
  private let cpuBefore = Atomic<UInt64>(0)
  private let waitBefore = Atomic<UInt64>(0)
  private let switchesBefore = Atomic<Int64>(0)
  private let change = Atomic<Change>(.none)
  private let changedTo = Atomic<UInt64>(0)
  private let leftClass = Atomic<UInt64>(0)
  private let thread = Atomic<UInt64>(0)
  private let ordinary = Atomic<UInt64>(0)
  private let ordinaryTime = Atomic<UInt64>(0)
  private let shortWaits = Atomic<UInt64>(0)
  private let meterAddress = Atomic<UInt>(0)

  deinit {
    if let meter { opp_thread_meter_destroy(meter) }
  }

  // MARK: The worker's

  func start(threadID: Int32, meter: OpaquePointer?) {
    meterAddress.store(UInt(bitPattern: meter), ordering: .relaxed)
    thread.store(UInt64(threadID), ordering: .releasing)  // publishes the meter to readers of `thread`
  }

  var meter: OpaquePointer? { OpaquePointer(bitPattern: meterAddress.load(ordering: .relaxed)) }

  func begin(
    identity: UInt64, app: OpaquePointer, band: Band, base: BasePriority, rank: UInt8, depth: Int,
    isRealTime: Bool, start: UInt64, usage: borrowing SliceUsage
  ) {
    // releasing, each: no field of this job may become visible before the even number that ended the last
    // job. A relaxed store could be reordered before that earlier store on Arm. Pairs with the acquiring
    // loads in read().
    self.identity.store(identity, ordering: .releasing)
    self.app.store(UInt(bitPattern: app), ordering: .releasing)
    liveDepth.store(depth, ordering: .releasing)
    place.store(
      UInt64(band.rawValue) | UInt64(rank) << 8 | UInt64(depth) << 16 | UInt64(base.index) << 24
        | (isRealTime ? 1 << 32 : 0),
      ordering: .releasing)
    self.start.store(start, ordering: .releasing)
    cpuBefore.store(usage.cpuAtAnchor, ordering: .releasing)
    waitBefore.store(usage.waitAtAnchor, ordering: .releasing)
    switchesBefore.store(usage.switchesAtAnchor, ordering: .releasing)
    // release: publishes the fields to read(). seqCst: precedes the worker's read of the alarm. The monitor
    // disarms the alarm before it reads this; one of the two sees the other.
    sequence.store(sequence.load(ordering: .relaxed) + 1, ordering: .sequentiallyConsistent)
  }

  /// Ends the report of the job. Returns the kernel priority that the monitor has given to the thread
  /// meanwhile, if any.
  func end() -> KernelPriority? {
    // release: this thread has finished with the fields.
    sequence.store(sequence.load(ordering: .relaxed) + 1, ordering: .sequentiallyConsistent)
    // seqCst: pairs with claim(). Either claim() sees the even number, or this load sees the change that it
    // has begun.
    guard change.load(ordering: .sequentiallyConsistent) != .none else { return nil }
    // acquiring: pairs with the monitor's release of `done`.
    while change.load(ordering: .acquiring) == .begun { opp_pause() }
    change.store(.none, ordering: .relaxed)
    let word = changedTo.exchange(0, ordering: .relaxed)
    return word == 0 ? nil : KernelPriority(word: word)
  }

  /// Whether the job that has just ended left the real-time foreground before: then the monitor has counted
  /// its time there. If the two meet it may be counted twice, but not missed.
  var endedOutOfClass: Bool {
    // acquiring: pairs with leaveClass(), as the sequence number does.
    leftClass.load(ordering: .acquiring) == sequence.load(ordering: .relaxed) - 1
  }

  /// Counts an ordinary job: one that has kept the run token with which it began, or has given it to fresh
  /// work, so it was neither a hog nor blocked for long.
  func addOrdinary(cpu: UInt64) {
    // relaxed, single writer: statistics for the monitor, which tolerates a mismatch of the two.
    ordinary.store(ordinary.load(ordering: .relaxed) &+ 1, ordering: .relaxed)
    ordinaryTime.store(ordinaryTime.load(ordering: .relaxed) &+ cpu, ordering: .relaxed)
  }

  /// Gives the thread the priority that the monitor has given it during the running job, else `own`, after it
  /// had another for a moment.
  func restorePriority(_ own: KernelPriority) {
    var given: KernelPriority?
    while true {
      // seqCst: pairs with setPriority(). Either this load sees the change that has begun, or the monitor's
      // system call comes after the one below, which was made before.
      while change.load(ordering: .sequentiallyConsistent) == .begun { opp_pause() }
      let wanted = changed ?? own
      if wanted == given { return }
      _ = wanted.apply(to: 0)
      given = wanted
    }
  }

  /// Tells how long the thread has spent so far in waits that do not count as blocking, in nanoseconds.
  func tellShortWaits(_ time: UInt64) {
    // relaxed, single writer: a look that misses the last wait takes it for time off the CPU until the next.
    shortWaits.store(time, ordering: .relaxed)
  }

  var shortWaitTime: UInt64 { shortWaits.load(ordering: .relaxed) }

  /// How many such jobs there were, and their total CPU time in nanoseconds.
  var ordinaryJobs: (count: UInt64, time: UInt64) {
    (ordinary.load(ordering: .relaxed), ordinaryTime.load(ordering: .relaxed))
  }

  /// The depth of the running job. The monitor may increase it while the job runs.
  var depth: Int { liveDepth.load(ordering: .relaxed) }

  /// When the running job began. For the worker itself.
  var began: UInt64 { start.load(ordering: .relaxed) }

  // MARK: Other threads

  var threadID: Int32 { Int32(truncatingIfNeeded: thread.load(ordering: .acquiring)) }

  /// CPU time of the thread so far, in nanoseconds; nil where it cannot be read.
  var cpuTime: UInt64? {
    var cpu: UInt64 = 0
    guard let meter, opp_thread_meter_cpu(meter, &cpu) == 0 else { return nil }
    return cpu
  }

  /// A reading of the current job; nil if the worker is inside no job, or has changed jobs during the read.
  func read() -> Reading? {
    let first = sequence.load(ordering: .sequentiallyConsistent)
    guard first & 1 == 1 else { return nil }
    // acquiring: the second read of `sequence` must come after these loads.
    let placed = place.load(ordering: .acquiring)
    let reading = Reading(
      sequence: first, identity: identity.load(ordering: .acquiring),
      app: OpaquePointer(bitPattern: app.load(ordering: .acquiring)),
      band: Band(rawValue: UInt8(truncatingIfNeeded: placed)) ?? .background,
      base: BasePriority(index: UInt8(placed >> 24 & 0xFF)),
      rank: Int(placed >> 8 & 0xFF), depth: Int(placed >> 16 & 0xFF), isRealTime: placed >> 32 & 1 == 1,
      start: start.load(ordering: .acquiring),
      cpuBefore: cpuBefore.load(ordering: .acquiring), waitBefore: waitBefore.load(ordering: .acquiring),
      switchesBefore: switchesBefore.load(ordering: .acquiring))
    return sequence.load(ordering: .relaxed) == first ? reading : nil
  }

  /// A number that increases with each job that begins or ends.
  var count: UInt64 { sequence.load(ordering: .relaxed) }

  func isStillInside(_ reading: Reading) -> Bool {
    sequence.load(ordering: .sequentiallyConsistent) == reading.sequence
  }

  /// The kernel priority that the monitor has given the thread during the running job; nil where it has given
  /// none.
  var changed: KernelPriority? {
    let word = changedTo.load(ordering: .relaxed)
    return word == 0 ? nil : KernelPriority(word: word)
  }

  func hasLeftClass(during reading: Reading) -> Bool {
    leftClass.load(ordering: .relaxed) == reading.sequence  // written by the caller, the monitor, only
  }

  /// Called by the monitor: the job leaves the real-time foreground, and the monitor counts its time there.
  /// Returns false if the job has ended, whose worker counts it then.
  func leaveClass(during reading: Reading) -> Bool {
    guard isStillInside(reading) else { return false }
    leftClass.store(reading.sequence, ordering: .releasing)  // pairs with endedOutOfClass
    return true
  }

  /// Called by the monitor: what the job submits from now on starts at this depth. If the job has just ended,
  /// the next one may count as demoted until it ends. Returns whether the worker was inside the job; if so,
  /// the job's end does not charge for this demotion again.
  func deepen(to depth: Int, during reading: Reading) -> Bool {
    guard isStillInside(reading) else { return false }
    liveDepth.store(depth, ordering: .relaxed)
    return true
  }

  /// Called by the monitor: changes the thread's kernel priority, if the thread is still inside that job.
  func setPriority(_ priority: KernelPriority, during reading: Reading) -> Bool {
    guard change.load(ordering: .acquiring) != .begun else { return false }
    change.store(.begun, ordering: .sequentiallyConsistent)
    guard isStillInside(reading) else {
      // Nothing was changed. A worker that has seen the claim waits for this store.
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
  /// The priority packed into one word that is not 0.
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
