internal import COpportune
internal import OpportuneBase

/// How much CPU time a worker's slices use, measured as seldom as possible.
///
/// A reading of the CPU clock costs 0.3 µs and one of the run-queue wait 0.4 µs more. So a slice of less than
/// 50 µs counts as CPU time as it stands, and is charged by sampling: whenever such slices have added up to
/// 100 µs, the task whose slice it is then pays for all of them. In the long run each pays its share. Longer
/// slices are measured, against an anchor that is renewed after each of them, at each sample and after each
/// sleep: it is never much older than the slice, or a fresh job that is preempted would pay for those before
/// it. The wait is read when enough time off the CPU has come together for it to matter; what was waited for
/// before the slice, such as for a CPU after a sleep, would else hide that the slice was blocked.
struct SliceUsage {
  private static let measured: UInt64 = 50_000
  private static let sample: UInt64 = 100_000
  private static let offMeasured: UInt64 = 200_000

  private var start: UInt64 = 0
  private var anchorCPU: UInt64 = 0
  private var anchorWait: UInt64 = 0
  /// Time of measured slices since the wait was read in which the CPU clock did not go on.
  private var uncounted: UInt64 = 0
  /// Voluntary context switches when the wait was last read.
  private(set) var switchesAtAnchor: Int64 = 0
  private var pool: UInt64 = 0
  /// What part() has told of this slice.
  private var told: UInt64 = 0

  /// What to charge the task with, nanoseconds of CPU time; 0 where nothing is due.
  private(set) var charge: UInt64 = 0
  var shouldCharge: Bool { charge > 0 }

  /// Renews the anchor: after a sleep, which was no blocking, or where there was none after all.
  mutating func anchor(_ meter: OpaquePointer?) {
    guard let meter else { return }
    var usage = opp_thread_usage()
    guard opp_thread_meter_read(meter, &usage) == 0 else { return }
    renew(usage)
  }

  private mutating func renew(_ usage: opp_thread_usage) {
    anchorCPU = usage.cpu_ns
    anchorWait = usage.wait_ns
    uncounted = 0
    switchesAtAnchor = opp_thread_own_voluntary_switches()
  }

  mutating func began(at now: UInt64) {
    start = now
    told = 0
  }

  /// CPU time of the slice so far, less what this has told before; 0 where that is little.
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

  /// CPU time of the slice that ends now, and time off the CPU without waiting for one.
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
    guard uncounted >= Self.offMeasured, opp_thread_meter_read(meter, &usage) == 0 else { return (cpu, 0) }
    // Who has not given the CPU up by itself was not blocked: what neither clock has counted the machine's
    // host took.
    let (switchesBefore, off) = (switchesAtAnchor, uncounted.saturatingSubtract(usage.wait_ns &- anchorWait))
    renew(usage)
    return (cpu, switchesAtAnchor != switchesBefore && usage.wait_known != 0 ? min(off, wall - cpu) : 0)
  }

  /// CPU time of the thread at the anchor, for the monitor's estimate of the running slice.
  var cpuAtAnchor: UInt64 { anchorCPU }
  var waitAtAnchor: UInt64 { anchorWait }
}

/// Counts of one app in one band that a worker has not handed in yet.
struct StatisticsBatch {
  private var block: StatisticsBlock?
  private(set) var band = Band.background
  private var jobs: UInt64 = 0
  private var cpu: UInt64 = 0
  private var stolen: UInt64 = 0

  /// Of what comes now; what was counted before has been handed in.
  mutating func count(for block: StatisticsBlock, in band: Band) {
    self.block = block
    self.band = band
  }

  mutating func began(stolen: Bool) { self.stolen += stolen ? 1 : 0 }

  mutating func ended(cpu: UInt64) {
    jobs += 1
    self.cpu += cpu
    // Limits of CPU time are kept by these counts.
    if jobs >= 64 || self.cpu >= 1_000_000 { flush() }
  }

  mutating func flush() {
    guard jobs > 0, let block else { return }
    block.add(.jobs, jobs, in: band)
    block.add(.cpuNanoseconds, cpu, in: band)
    block.add(.stolen, stolen, in: band)
    (jobs, cpu, stolen) = (0, 0, 0)
  }
}
