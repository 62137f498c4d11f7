internal import COpportune

/// How much CPU time a worker's slices use, measured as seldom as possible.
///
/// A reading of the CPU clock costs 0.3 µs and one of the run-queue wait 0.4 µs more. So a slice of less than 50 µs
/// counts as CPU time as it stands, and is charged by sampling: whenever such slices have added up to 100 µs, the task
/// whose slice it is then pays for all of them. In the long run each pays its share. Longer slices are measured,
/// against an anchor that is renewed after each of them, at each sample and before each sleep: it is never much older
/// than the slice, or a fresh job that is preempted would pay for those before it.
struct SliceUsage {
  private static let measured: UInt64 = 50_000
  private static let sample: UInt64 = 100_000
  private static let waitMeasured: UInt64 = 1_000_000

  private var start: UInt64 = 0
  private var anchorCPU: UInt64 = 0
  private var anchorWait: UInt64 = 0
  /// Voluntary context switches when the worker last got up or found that it need not lie down, or when the last slice
  /// of a millisecond or more ended.
  private(set) var switchesAtAnchor: Int64 = 0
  private var pool: UInt64 = 0
  /// What part() has told of this slice.
  private var told: UInt64 = 0

  /// What to charge the task with, nanoseconds of CPU time; 0 where nothing is due.
  private(set) var charge: UInt64 = 0
  var shouldCharge: Bool { charge > 0 }

  /// Renews the anchor; before a sleep, when nobody waits.
  mutating func anchor(_ meter: OpaquePointer?) {
    guard let meter else { return }
    var usage = opp_thread_usage()
    guard opp_thread_meter_read(meter, &usage) == 0 else { return }
    anchorCPU = usage.cpu_ns
    anchorWait = usage.wait_ns
    switchesAtAnchor = opp_thread_own_voluntary_switches()
  }

  /// The sleep since the anchor was no blocking.
  mutating func gotUp() { switchesAtAnchor = opp_thread_own_voluntary_switches() }

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
    guard wall >= Self.waitMeasured else {
      var clock: UInt64 = 0
      guard opp_thread_meter_cpu(meter, &clock) == 0 else { return (wall, 0) }
      let cpu = min(wall, clock &- anchorCPU)
      anchorCPU = clock
      charge = cpu
      return (cpu, 0)
    }
    var usage = opp_thread_usage()
    guard opp_thread_meter_read(meter, &usage) == 0 else { return (wall, 0) }
    let cpu = min(wall, usage.cpu_ns &- anchorCPU)
    let waited = min(wall - cpu, usage.wait_ns &- anchorWait)
    anchorCPU = usage.cpu_ns
    anchorWait = usage.wait_ns
    charge = max(cpu, 1)
    // Who has not given the CPU up by itself was not blocked: what neither clock has counted the machine's host took.
    let switches = opp_thread_own_voluntary_switches()
    let gaveUp = switches != switchesAtAnchor
    switchesAtAnchor = switches
    return (cpu, gaveUp && usage.wait_known != 0 ? wall - cpu - waited : 0)
  }

  /// CPU time of the thread at the anchor, for the monitor's estimate of the running slice.
  var cpuAtAnchor: UInt64 { anchorCPU }
  var waitAtAnchor: UInt64 { anchorWait }
}

/// Counts of one app that a worker has not handed in yet.
struct StatisticsBatch {
  var block: StatisticsBlock?
  private var jobs: UInt64 = 0
  private var cpu: UInt64 = 0
  private var stolen: UInt64 = 0

  mutating func began(stolen: Bool) { self.stolen += stolen ? 1 : 0 }

  mutating func ended(cpu: UInt64) {
    jobs += 1
    self.cpu += cpu
    // Limits of CPU time are kept by these counts.
    if jobs >= 64 || self.cpu >= 1_000_000 { flush() }
  }

  mutating func flush() {
    guard jobs > 0, let block else { return }
    block.add(.jobs, jobs)
    block.add(.cpuNanoseconds, cpu)
    block.add(.stolen, stolen)
    (jobs, cpu, stolen) = (0, 0, 0)
  }
}
