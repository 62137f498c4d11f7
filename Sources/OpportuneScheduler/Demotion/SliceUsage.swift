internal import COpportune
internal import OpportuneBase

/// Measures the CPU time of a worker's slices with as few clock readings as possible.
///
/// Reading the CPU clock costs 0.3 µs, and reading the run-queue wait 0.4 µs more. So slices are charged in
/// two ways:
/// * A slice of less than 50 µs counts its wall-clock time as CPU time and is charged by sampling. Whenever
///   such slices have added up to 100 µs, the task of the current slice pays for all of them. In the long run
///   each task pays its share.
/// * A longer slice is measured against an anchor. The anchor is renewed after each such slice, at each
///   sample and before each sleep. So it is never much older than the slice; otherwise a fresh job that is
///   preempted would pay for the slices before it.
///
/// The run-queue wait is read once enough time off the CPU has accumulated for it to matter. A wait for a CPU
/// between the sleep and the slice is counted with the slice's own, and hides as much of its blocking. Of a
/// fresh job that wait is short. A demoted one may wait for long, and for it the anchor is renewed once more;
/// likewise for the first slice after a series of jobs that were only queued again.
struct SliceUsage {
  private static let measured: UInt64 = 50_000
  private static let sample: UInt64 = 100_000
  private static let offMeasured: UInt64 = 200_000

  private var start: UInt64 = 0
  private var anchorCPU: UInt64 = 0
  /// With the short waits until then.
  private var anchorWait: UInt64 = 0
  /// Nanoseconds in waits that do not count as blocking.
  private var shortWaits: UInt64 = 0
  /// Time of measured slices, since the wait was last read, in which the CPU clock did not advance.
  private var uncounted: UInt64 = 0
  /// Voluntary context switches when the wait was last read.
  private(set) var switchesAtAnchor: Int64 = 0
  private var pool: UInt64 = 0
  /// What part() has already returned for this slice.
  private var told: UInt64 = 0

  /// The CPU time in nanoseconds to charge to the task; 0 where nothing is due.
  private(set) var charge: UInt64 = 0
  var shouldCharge: Bool { charge > 0 }

  /// Whether the anchor is from before a sleep.
  private var hasSlept = false
  /// Whether the thread has used the CPU since the anchor was renewed for no slice.
  private var hasStrayed = false
  /// Whether a slice has begun since the anchor was renewed.
  private var isUsed = false

  /// Renews the anchor before the worker sleeps; where it has run nothing since, the anchor stays good: the
  /// next slice pays for some microseconds of another sleep's end.
  mutating func anchorIfUsed(_ meter: OpaquePointer?) {
    if isUsed { anchor(meter) }
  }

  /// Renews the anchor: at the start of the thread, and before the worker sleeps.
  mutating func anchor(_ meter: OpaquePointer?) {
    guard let meter else { return }
    var usage = opp_thread_usage()
    var switches: Int64 = 0
    guard opp_thread_meter_read_own(meter, &usage, &switches) == 0 else { return }
    renew(usage, switches)
  }

  private mutating func renew(_ usage: opp_thread_usage, _ switches: Int64) {
    anchorCPU = usage.cpu_ns
    anchorWait = usage.wait_ns &+ shortWaits
    uncounted = 0
    isUsed = false
    switchesAtAnchor = switches
  }

  /// The thread has slept since the anchor was renewed, which was one voluntary switch. One that waits for
  /// descriptors may not have slept, where something had come, or more than once, where another took what it
  /// was woken for: to know would cost a system call before the job. Then a job that blocks once in its slice
  /// may count as one whose CPU the machine's host took, or the other way round.
  mutating func slept() {
    switchesAtAnchor += 1
    hasSlept = true
  }

  /// The thread has used the CPU for what is no slice, and no slice is to pay for it.
  mutating func strayed() { hasStrayed = true }

  /// The slice has waited for so many nanoseconds, which do not count as blocking. Returns all such time.
  mutating func addShortWait(_ time: UInt64) -> UInt64 {
    shortWaits &+= time
    return shortWaits
  }

  mutating func began(at now: UInt64, isDemoted: Bool, meter: OpaquePointer?) {
    start = now
    told = 0
    if hasStrayed || hasSlept && isDemoted { anchor(meter) }
    (hasSlept, hasStrayed, isUsed) = (false, false, true)
  }

  /// CPU time of the slice so far, minus what this function has returned before; 0 where that is little.
  mutating func part(until now: UInt64, meter: OpaquePointer?) -> UInt64 {
    let wall = now > start ? now - start : 0
    var clock: UInt64 = 0
    guard wall >= Self.measured, let meter, opp_thread_meter_cpu(meter, &clock) == 0 else { return 0 }
    let cpu = min(wall, clock &- anchorCPU)
    (anchorCPU, start) = (clock, now)
    uncounted += wall - cpu
    told += cpu
    return cpu
  }

  /// CPU time of the slice that ends now, and time off the CPU without waiting for a CPU.
  mutating func ended(at now: UInt64, meter: OpaquePointer?) -> (cpu: UInt64, offCPU: UInt64) {
    let (cpu, offCPU) = rest(at: now, meter: meter)
    return (cpu + told, offCPU)
  }

  private mutating func rest(at now: UInt64, meter: OpaquePointer?) -> (cpu: UInt64, offCPU: UInt64) {
    let wall = now > start ? now - start : 0
    charge = 0
    guard wall >= Self.measured, let meter else {
      pool += wall
      if pool >= Self.sample {
        charge = pool
        pool = 0
        var clock: UInt64 = 0
        if let meter, opp_thread_meter_cpu(meter, &clock) == 0 { anchorCPU = clock }
      }
      return (wall, 0)
    }
    var clock: UInt64 = 0
    guard opp_thread_meter_cpu(meter, &clock) == 0 else { return (wall, 0) }
    let cpu = min(wall, clock &- anchorCPU)
    anchorCPU = clock
    charge = max(cpu, 1)
    uncounted += wall - cpu
    var usage = opp_thread_usage()
    var switches: Int64 = 0
    guard uncounted >= Self.offMeasured, opp_thread_meter_read_own(meter, &usage, &switches) == 0 else {
      return (cpu, 0)
    }
    // A thread that did not give up the CPU voluntarily was not blocked. Time that neither clock counted was
    // then taken by the machine's host.
    let waited = usage.wait_ns &+ shortWaits &- anchorWait
    let (switchesBefore, off) = (switchesAtAnchor, uncounted.saturatingSubtract(waited))
    renew(usage, switches)
    return (cpu, switches != switchesBefore && usage.wait_known != 0 ? min(off, wall - cpu) : 0)
  }

  /// The thread's CPU time at the anchor, for the monitor's estimate of the running slice.
  var cpuAtAnchor: UInt64 { anchorCPU }
  var waitAtAnchor: UInt64 { anchorWait }
}

/// Counts of one app in one band that a worker has not yet added to the app's statistics.
struct StatisticsBatch {
  private var block: StatisticsBlock?
  private(set) var band = Band.background
  private var jobs: UInt64 = 0
  private var cpu: UInt64 = 0
  private var stolen: UInt64 = 0

  /// Sets the block for the following counts; the caller has flushed the previous ones.
  mutating func count(for block: StatisticsBlock, in band: Band) {
    self.block = block
    self.band = band
  }

  mutating func began(stolen: Bool) { self.stolen += stolen ? 1 : 0 }

  mutating func ended(cpu: UInt64) {
    jobs += 1
    self.cpu += cpu
    // CPU limits are enforced by these counts, so they must not lag.
    if jobs >= 64 || self.cpu >= 1_000_000 { flush() }
  }

  mutating func flush() {
    guard jobs > 0, let block else { return }
    block.addJobs(jobs, cpu: cpu, stolen: stolen, in: band)
    (jobs, cpu, stolen) = (0, 0, 0)
  }
}
