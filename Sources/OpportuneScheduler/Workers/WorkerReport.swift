internal import COpportune

/// What a worker publishes about its current job, and the claim by which the monitor changes the priority of
/// the worker's thread: the Swift face of that part of the worker's record in the C core. Its protocol is in
/// report.c. Not to be used beyond the life of its pool.
struct WorkerReport: @unchecked Sendable {
  // Sendable: any thread may call its functions; which belong to the worker and to the monitor is said below.
  private let raw: OpaquePointer

  /// One consistent reading of the report.
  struct Reading {
    private let reading: opp_reading

    fileprivate init(_ reading: opp_reading) { self.reading = reading }

    /// The number of the job, among all of this slot.
    var sequence: UInt64 { reading.sequence }
    var identity: UInt64 { reading.job.identity }
    /// The job's `opp_app`. The pointer remains valid after the app's end.
    var app: OpaquePointer? { reading.job.app }
    var band: Band { Band(rawValue: reading.job.band) ?? .background }
    /// The base priority of the job, before demotion.
    var base: BasePriority { BasePriority(index: reading.job.base) }
    var rank: Int { Int(reading.job.rank) }
    var depth: Int { Int(reading.job.depth) }
    /// The job began in the real-time foreground.
    var isRealTime: Bool { reading.job.is_real_time }
    var start: UInt64 { reading.job.start }
    /// The kernel priority of the thread as the job began.
    var priority: KernelPriority { KernelPriority(word: reading.job.priority) }
    /// CPU time of the thread when it was last measured, before this job.
    var cpuBefore: UInt64 { reading.job.cpu_before }
    /// The thread's run-queue wait and short waits at that time, and its voluntary context switches when it
    /// was last parked.
    var waitBefore: UInt64 { reading.job.wait_before }
    var switchesBefore: Int64 { reading.job.switches_before }
  }

  /// - Parameter worker: in the C core.
  init(of worker: OpaquePointer) { raw = opp_worker_report(worker) }

  // MARK: The worker's

  func start(threadID: Int32, meter: OpaquePointer?) { opp_report_start(raw, threadID, meter) }

  @inline(__always) func begin(_ job: opp_report_job) {
    withUnsafePointer(to: job) { opp_report_begin(raw, $0) }
  }

  /// Ends the report of the job. Returns the kernel priority that the monitor has given to the thread
  /// meanwhile, if any; the job's depth; and whether it left the real-time foreground before, where the
  /// monitor has counted its time there. If the two meet it may be counted twice, but not missed.
  @inline(__always) func end() -> (changed: KernelPriority?, depth: Int, leftClass: Bool) {
    let ended = opp_report_end(raw)
    return (
      ended.priority == 0 ? nil : KernelPriority(word: ended.priority), Int(ended.depth), ended.left_class
    )
  }

  /// Counts an ordinary job: one that has kept the run token with which it began, or has given it to fresh
  /// work, so it was neither a hog nor blocked for long.
  func addOrdinary(cpu: UInt64) { opp_report_add_ordinary(raw, cpu) }

  /// From here on the priority of the thread is the job's own, until ``releasePriority(_:wasChanged:)``: what
  /// the monitor gives takes effect then. Returns whether it has given one to this job before.
  func keepPriority() -> Bool { opp_report_keep_priority(raw) != 0 }

  /// Whether the running job keeps the thread's priority, since it waits for a device and for no lock of the
  /// program's.
  var keepsPriority: Bool { opp_report_keeps_priority(raw) }

  /// Gives the thread the priority that the monitor has given it during the running job, else `own`, where it
  /// was changed meanwhile.
  func releasePriority(_ own: KernelPriority, wasChanged: Bool) {
    guard opp_report_release_priority(raw) != 0 || wasChanged else { return }
    var given: KernelPriority?
    while true {
      let word = opp_report_settled(raw)
      let wanted = word == 0 ? own : KernelPriority(word: word)
      if wanted == given { return }
      _ = wanted.apply(to: 0)
      given = wanted
    }
  }

  /// How long the thread has spent so far in waits that do not count as blocking, in nanoseconds; set by the
  /// worker.
  var shortWaitTime: UInt64 {
    get { opp_report_short_waits(raw) }
    nonmutating set { opp_report_set_short_waits(raw, newValue) }
  }

  /// When the running job began. For the worker itself.
  var began: UInt64 { opp_report_began(raw) }

  // MARK: Other threads

  var threadID: Int32 { opp_report_thread(raw) }

  var meter: OpaquePointer? { opp_report_meter(raw) }

  /// CPU time of the thread so far, in nanoseconds; nil where it cannot be read.
  var cpuTime: UInt64? {
    var cpu: UInt64 = 0
    guard let meter, opp_thread_meter_cpu(meter, &cpu) == 0 else { return nil }
    return cpu
  }

  /// A reading of the current job; nil if the worker is inside no job, or has changed jobs during the read.
  func read() -> Reading? {
    var reading = opp_reading()
    return opp_report_read(raw, &reading) ? Reading(reading) : nil
  }

  func isStillInside(_ reading: Reading) -> Bool { opp_report_is_inside(raw, reading.sequence) }

  /// A number that increases with each job that begins or ends.
  var count: UInt64 { opp_report_count(raw) }

  /// The depth of the running job. The monitor may increase it while the job runs.
  var depth: Int { Int(opp_report_depth(raw)) }

  /// How long the running job had been off the CPU, in nanoseconds, when the monitor lowered it last.
  var offWhenLowered: UInt64 { opp_report_off_when_deepened(raw) }

  /// How many ordinary jobs there were, and their total CPU time in nanoseconds.
  var ordinaryJobs: (count: UInt64, time: UInt64) {
    var time: UInt64 = 0
    let count = opp_report_ordinary(raw, &time)
    return (count, time)
  }

  // MARK: The monitor's

  /// The thread has ended.
  func stop() { opp_report_stop(raw) }

  /// The kernel priority that the monitor has given the thread during the running job; nil where it has given
  /// none.
  var changed: KernelPriority? {
    let word = opp_report_changed(raw)
    return word == 0 ? nil : KernelPriority(word: word)
  }

  /// Changes the thread's kernel priority, if the thread is still inside that job.
  func setPriority(_ priority: KernelPriority, during reading: Reading) -> Bool {
    guard opp_report_begin_change(raw, reading.sequence) else { return false }
    let agreed = keepsPriority || priority.apply(to: threadID)
    opp_report_end_change(raw, agreed ? priority.word : 0)
    return agreed
  }

  /// Asks `body` where the thread is still inside that job, whose end spins until it has answered: a few
  /// nanoseconds are no matter. Returns false where the job has ended.
  func whileInside(_ reading: Reading, _ body: () -> Bool) -> Bool {
    guard opp_report_begin_change(raw, reading.sequence) else { return false }
    defer { opp_report_end_change(raw, 0) }
    return body()
  }

  /// What the job submits from now on starts at this depth. If the job has just ended, the next one may count
  /// as demoted until it ends. Returns whether the worker was inside the job; if so, the job's end does not
  /// charge for this demotion again.
  ///
  /// - Parameter offCPU: how long the job has been off the CPU by now, in nanoseconds.
  func deepen(to depth: Int, offCPU: UInt64, during reading: Reading) -> Bool {
    opp_report_deepen(raw, reading.sequence, UInt32(depth), offCPU)
  }

  /// The job leaves the real-time foreground, and the monitor counts its time there. Returns false if the job
  /// has ended, whose worker counts it then.
  func leaveClass(during reading: Reading) -> Bool { opp_report_leave_class(raw, reading.sequence) }

  func hasLeftClass(during reading: Reading) -> Bool { opp_report_has_left_class(raw, reading.sequence) }
}

extension KernelPriority {
  /// The priority packed into one word that is not 0.
  var word: UInt64 {
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
