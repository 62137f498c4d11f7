import COpportune
import Glibc
import Synchronization
import TestSupport
import Testing

/// A thread of the core that runs until a test ends it, started and observed as Swift does.
private final class Guest: @unchecked Sendable {
  // Written by the thread before it posts `ready`, read after that was waited for.
  private(set) var id: Int32 = 0
  private(set) var meter: OpaquePointer?
  private let ready = Semaphore()
  private let mayEnd = Semaphore()
  private let ended = Semaphore()
  private let isSpinning = Atomic(true)

  init() throws {
    let result = opp_thread_start(
      "guest", 0,
      { Unmanaged<Guest>.fromOpaque($0.unsafelyUnwrapped).takeRetainedValue().run() },
      Unmanaged.passRetained(self).toOpaque())
    try #require(result == 0)
    ready.wait()
  }

  private func run() {
    id = opp_thread_id()
    meter = opp_thread_meter_create()
    ready.post()
    while isSpinning.load(ordering: .relaxed) {}
    mayEnd.wait()
    ended.post()
  }

  var parameters: opp_sched_params {
    get throws {
      var parameters = opp_sched_params()
      try #require(opp_thread_get_sched(id, &parameters) == 0)
      return parameters
    }
  }

  func set(_ policy: opp_class, nice: Int8 = 0, slice: UInt64 = 0, rt: UInt8 = 0) -> Int32 {
    var parameters = opp_sched_params(policy: policy, nice: nice, rt_priority: rt, slice_ns: slice)
    return opp_thread_set_sched(id, &parameters)
  }

  func block() { isSpinning.store(false, ordering: .relaxed) }

  /// The thread has run to its end when this returns.
  func end() {
    isSpinning.store(false, ordering: .relaxed)
    mayEnd.post()
    ended.wait()
    if let meter { opp_thread_meter_destroy(meter) }
  }
}

private final class Semaphore: @unchecked Sendable {
  private let raw = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
  init() { sem_init(raw, 0, 0) }
  deinit {
    sem_destroy(raw)
    raw.deallocate()
  }
  func post() { sem_post(raw) }
  func wait() { while sem_wait(raw) != 0 {} }
}

@Suite(.bounded) struct ThreadTests {
  // R-CPU-01, R-CARD-02
  @Test func schedulingParametersOfAnotherThreadMakeTheRoundTrip() throws {
    let guest = try Guest()
    defer { guest.end() }
    var own = opp_sched_params()
    #expect(opp_thread_get_sched(0, &own) == 0)
    let nice = min(19, try guest.parameters.nice + 2)

    #expect(guest.set(OPP_CLASS_BATCH, nice: nice) == 0)
    #expect(try guest.parameters.policy == OPP_CLASS_BATCH)
    #expect(guest.set(OPP_CLASS_NORMAL, nice: nice) == 0)
    #expect(try guest.parameters.policy == OPP_CLASS_NORMAL)
    #expect(try guest.parameters.nice == nice)
    #expect(guest.set(OPP_CLASS_IDLE) == 0)
    #expect(try guest.parameters.policy == OPP_CLASS_IDLE)

    var after = opp_sched_params()
    #expect(opp_thread_get_sched(0, &after) == 0)
    #expect(after.policy == own.policy && after.nice == own.nice, "the caller's are its own")
  }

  // R-CPU-06
  @Test func sliceGoesDownAndUpAgain() throws {
    var probe = opp_system_probe()
    #expect(opp_system_probe_run(&probe) == 0)
    let guest = try Guest()
    defer { guest.end() }
    let nice = try guest.parameters.nice
    for slice: UInt64 in [20_000_000, 100_000, 100_000_000] {
      #expect(guest.set(OPP_CLASS_NORMAL, nice: nice, slice: slice) == 0, "kernels without slices ignore it")
      #expect(try guest.parameters.slice_ns == (probe.can_set_slice != 0 ? slice : probe.default_slice_ns))
    }
  }

  @Test func valuesOutOfRangeAreRefused() throws {
    let guest = try Guest()
    defer { guest.end() }
    #expect(guest.set(OPP_CLASS_NORMAL, nice: 20) == -EINVAL)
    #expect(guest.set(OPP_CLASS_NORMAL, slice: 99_999) == -EINVAL)
    #expect(guest.set(OPP_CLASS_RR, rt: 0) == -EINVAL)
  }

  // R-CPU-01
  @Test func realTimeIsEnteredWhereTheProbeSaysSo() throws {
    var probe = opp_system_probe()
    #expect(opp_system_probe_run(&probe) == 0)
    let guest = try Guest()
    defer { guest.end() }
    guest.block()
    let result = guest.set(OPP_CLASS_RR, rt: 1)
    #expect(result == (probe.can_use_rr != 0 ? 0 : -EPERM))
    #expect(try guest.parameters.policy == (result == 0 ? OPP_CLASS_RR : OPP_CLASS_NORMAL))
  }
}

@Suite(.bounded) struct MeterTests {
  // R-CPU-06: a quantum is CPU time, and is seen from outside while the thread runs.
  @Test func cpuTimeGrowsWhileTheThreadRuns() throws {
    let guest = try Guest()
    defer { guest.end() }
    let meter = try #require(guest.meter)
    var first: UInt64 = 0
    #expect(opp_thread_meter_cpu(meter, &first) == 0)
    var now = first
    while now < first + 10_000_000 {
      try #require(opp_thread_meter_cpu(meter, &now) == 0)
      sched_yield()
    }
    var usage = opp_thread_usage()
    #expect(opp_thread_meter_read(meter, &usage) == 0)
    #expect(usage.cpu_ns >= now)
    #expect(usage.wait_known == 1 || usage.wait_ns == 0)
  }

  // R-CPU-08: a thread that blocks is told from one that runs.
  @Test func blockingIsSeen() throws {
    let guest = try Guest()
    defer { guest.end() }
    let meter = try #require(guest.meter)
    let switches = opp_thread_meter_voluntary_switches(meter)
    try #require(switches >= 0, "needs /proc")
    #expect(opp_thread_meter_is_blocked(meter) == 0, "it spins")
    guest.block()
    while opp_thread_meter_is_blocked(meter) == 0 { sched_yield() }
    #expect(opp_thread_meter_is_blocked(meter) == 1)
    #expect(opp_thread_meter_voluntary_switches(meter) > switches)
  }
}

// R-SYS-03
@Suite(.bounded) struct TopologyTests {
  private func topology(cpus: UInt32, quota: UInt64 = 0) -> opp_topology {
    var topology = opp_topology()
    topology.cpu_count = cpus
    topology.node_count = 1
    topology.quota_milli = quota
    return topology
  }

  @Test(
    arguments: [
      (8, 0, 8), (8, 1, 1), (8, 1000, 1), (8, 1001, 2), (8, 2500, 3), (8, 7001, 8), (8, 64000, 8), (0, 0, 1),
    ] as [(UInt32, UInt64, UInt32)])
  func widthIsTheQuotaRoundedUp(cpus: UInt32, quota: UInt64, width: UInt32) {
    var topology = topology(cpus: cpus, quota: quota)
    #expect(opp_topology_width(&topology) == width)
  }

  @Test(arguments: [2, 8] as [UInt32])
  func injectedNodesAreReadable(nodes: UInt32) throws {
    // As a test of the scheduler fills one in: four CPUs a node, none of which this machine has.
    var topology = topology(cpus: nodes * 4)
    topology.node_count = nodes
    withUnsafeMutableBytes(of: &topology.node_of) {
      for place in 0..<Int(nodes) * 4 { $0[place] = UInt8(place / 4) }
    }
    withUnsafeMutableBytes(of: &topology.cpu) { raw in
      let cpu = raw.bindMemory(to: UInt16.self)
      for place in 0..<Int(nodes) * 4 { cpu[place] = 4096 + UInt16(place) }
    }
    #expect(opp_topology_current(&topology) == -1, "none of them is ours")
    #expect(opp_topology_width(&topology) == nodes * 4)
  }

  // R-CARD-01
  @Test func thisMachineIsRead() throws {
    var topology = opp_topology()
    try #require(opp_topology_read(&topology) == 0)
    // Exactly how many is compared in Tests/c, where the affinity mask can be read.
    #expect(topology.cpu_count >= 1 && Int(topology.cpu_count) <= sysconf(Int32(_SC_NPROCESSORS_CONF)))
    #expect(topology.node_count >= 1)
    #expect(opp_topology_width(&topology) >= 1 && opp_topology_width(&topology) <= topology.cpu_count)
    let place = opp_topology_current(&topology)
    #expect(place >= 0 && place < Int32(topology.cpu_count))
  }
}
