import COpportune
import Dispatch
import TestSupport
import Testing

@testable import OpportuneScheduler

/// The warning about foreground work that waits for a suspended app, since it may wait for ever.
@Suite(.bounded, .timeLimit(.minutes(2))) struct SuspendedWaitTests {
  private actor Service {
    nonisolated let strand: Strand
    nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }
    init(_ strand: Strand) { self.strand = strand }

    func ask() -> Int { 7 }
  }

  /// Two apps of a scheduler, and what it says.
  private struct Rig {
    let said = LogLines()
    let engine: Engine
    let front: App
    let service: App

    init(afterMilliseconds delay: UInt64 = 1, serviceBand: Band = .background) throws {
      engine = try Engine(
        SchedulerConfiguration(workers: 2), said.logger, waitWarningDelay: delay * 1_000_000)
      front = try engine.makeApp(named: "front", band: .foreground)
      service = try engine.makeApp(named: "service", band: serviceBand)
    }

    func expectSaid(_ count: Int) async {
      let lines = await said.record.reaching(count)
      #expect(lines.count == count)
      for line in lines {
        #expect(line.level == .warning && line.message.contains("waits for a suspended app"))
        #expect(line.metadata == ["app": "front", "suspended": "service"])
      }
    }

    /// The wait is told once, until it is over and after that.
    func isTold(of waiters: AppTask<Int, Never>...) async {
      await expectSaid(1)
      service.resume()
      for waiter in waiters { #expect(await waiter.value == 7) }
      await engine.end()
      await expectSaid(1)
    }

    /// The monitor has handled all that was posted before.
    func settle() async { _ = await withCheckedContinuation { engine.monitor.post(.snapshot(engine, $0)) } }
  }

  // R-FTS-09 R-CPU-02
  @Test(arguments: [Band.background, .foreground]) func whoAwaitsASuspendedAppsActorIsNamed(band: Band)
    async throws
  {
    let rig = try Rig(serviceBand: band)
    let actor = Service(try rig.service.makeStrand(named: "strand"))
    rig.service.suspend()
    let waiter = rig.front.task { await actor.ask() }
    await rig.isTold(of: waiter)
  }

  // R-FTS-09 R-CPU-02
  @Test(arguments: [Band.background, .foreground]) func whoAwaitsASuspendedAppsTaskIsNamed(band: Band)
    async throws
  {
    let rig = try Rig(serviceBand: band)
    rig.service.suspend()
    let task = rig.service.task { 7 }
    let waiter = rig.front.task { await task.value }
    await rig.isTold(of: waiter)
  }

  /// A task that itself goes to the executor of an app that is suspended already.
  // R-FTS-09 R-CPU-02
  @Test(arguments: [Band.background, .foreground]) func whoGoesToASuspendedAppsExecutorIsNamed(band: Band)
    async throws
  {
    let rig = try Rig(serviceBand: band)
    rig.service.suspend()
    let executor = rig.service.executor
    let waiters = [
      rig.front.task { await withTaskExecutorPreference(executor) { 7 } }.task,
      Task(executorPreference: rig.front.executor) { await withTaskExecutorPreference(executor) { 7 } },
    ]
    await rig.expectSaid(1)
    rig.service.resume()
    for waiter in waiters { #expect(await waiter.value == 7) }
    #expect(rig.service.core.record.waiter == nil, "each wait has ended")
    await rig.engine.end()
    await rig.expectSaid(1)
  }

  // R-FTS-09 R-CPU-02
  @Test func whoWaitsAndThenComesToTheFrontIsNamed() async throws {
    let rig = try Rig()
    try rig.front.setBand(.background)
    rig.service.suspend()
    let task = rig.service.task { 7 }
    let begun = Record<Bool>()
    let waiter = rig.front.task {
      begun.add(true)
      return await task.value
    }
    _ = await begun.reaching(1)
    await rig.settle()
    #expect(rig.said.lines.isEmpty, "nobody in front waits")
    // Once more where the wait itself had not begun yet.
    while rig.said.lines.isEmpty, !begun.values.isEmpty {
      try rig.front.setBand(.background)
      try rig.front.setBand(.foreground)
      await rig.settle()
    }
    await rig.isTold(of: waiter)
  }

  // R-FTS-09 R-CPU-02
  @Test func aSuspendedAppThatChangesItsBandIsStillNamed() async throws {
    let rig = try Rig(afterMilliseconds: 200)
    rig.service.suspend()
    let task = rig.service.task { 7 }
    let waiter = rig.front.task { await task.value }
    while rig.service.core.record.waiter == nil { await Task.yield() }
    try rig.service.setBand(.foreground)
    await rig.isTold(of: waiter)
  }

  // R-FTS-09 R-CPU-02
  /// The wait began before; a slice that was running then is over first.
  @Test(arguments: [Band.background, .foreground]) func anAppThatIsSuspendedWithWaitersIsNamed(band: Band)
    async throws
  {
    let rig = try Rig(serviceBand: band)
    let strand = try rig.service.makeStrand(named: "strand")
    let actor = Service(strand)
    let (inside, gate) = (Record<Bool>(), DispatchSemaphore(value: 0))
    try strand.submit {
      inside.add(true)
      gate.wait()
    }
    _ = await inside.reaching(1)
    let waiter = rig.front.task { await actor.ask() }
    #expect(spin { rig.service.core.record.waiter != nil }, "it waits")
    rig.service.suspend()
    await rig.settle()
    #expect(rig.said.lines.isEmpty, "what runs there may be what it waits for")
    gate.signal()
    await rig.isTold(of: waiter)
  }

  // R-FTS-09
  @Test func whoIsNotInTheForegroundWaitsSilently() async throws {
    let rig = try Rig()
    let actor = Service(try rig.service.makeStrand(named: "strand"))
    let other = try rig.engine.makeApp(named: "other", band: .background)
    rig.service.suspend()
    let patient = other.task { await actor.ask() }
    let own = rig.service.task { await actor.ask() }
    // Of a closure nobody awaits the end.
    try rig.front.submit { do { try actor.strand.submit {} } catch { Issue.record(error) } }
    let waiter = rig.front.task { await actor.ask() }
    await rig.isTold(of: patient, own, waiter)
  }

  // R-FTS-09
  @Test func whoIsResumedInTimeIsNotTold() async throws {
    let rig = try Rig(afterMilliseconds: 3_600_000)
    let actor = Service(try rig.service.makeStrand(named: "strand"))
    for _ in 0..<10 {
      rig.service.suspend()
      let waiter = rig.front.task { await actor.ask() }
      #expect(spin { rig.service.core.record.waiter != nil }, "it waits")
      rig.service.resume()
      #expect(await waiter.value == 7)
    }
    #expect(rig.service.core.record.waiter == nil, "each wait has ended")
    await rig.engine.end()
    await rig.expectSaid(0)
  }

  // R-FTS-09
  @Test func aWaitThatIsOverIsNotTold() async throws {
    let rig = try Rig()
    let task = rig.service.task { 7 }
    #expect(await task.value == 7)
    rig.service.suspend()
    // It need not wait.
    for _ in 0..<10 {
      let answer = await rig.front.task { await task.value }.value
      #expect(answer == 7)
    }
    await rig.settle()
    let late = rig.service.task { 8 }
    let waiter = rig.front.task { await late.value }
    await rig.expectSaid(1)
    rig.service.resume()
    #expect(await waiter.value == 8)
    await rig.engine.end()
    await rig.expectSaid(1)
  }

  // R-FTS-09
  @Test func eachSuspensionIsToldOnce() async throws {
    let rig = try Rig()
    let actor = Service(try rig.service.makeStrand(named: "strand"))
    for round in 1...3 {
      rig.service.suspend()
      let waiters = (0..<5).map { _ in rig.front.task { await actor.ask() } }
      await rig.expectSaid(round)
      rig.service.resume()
      for waiter in waiters { #expect(await waiter.value == 7) }
    }
    await rig.engine.end()
    await rig.expectSaid(3)
  }
}
