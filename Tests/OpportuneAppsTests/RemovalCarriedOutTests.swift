import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Opportune
@testable import OpportuneApps

@Suite(.bounded) struct RemovalCarriedOutTests {
  /// An app in front, and its number with the memory broker.
  private func launchNotes(on host: AppHost, _ memory: HostMemory) async throws -> (AppID, UInt32) {
    let numbers = AtomicBox<[UInt32]>([])
    let id = await host.register(Manifest(identifier: "notes"), memory: memory) { _, own in
      numbers.change { $0.append(own.number) }
      return Silent()
    }
    try await launchAndWait(host, id)
    return (id, try #require(numbers.value.first))
  }

  /// Between the choice and the host's strand a person may have brought the app forward.
  // R-MEM-01, R-MEM-09
  @Test(.timeLimit(.minutes(1))) func whoIsInFrontByNowStays() async throws {
    let scheduler = try Scheduler()
    let reported = Atomic<Int>(0)
    let (events, continuation) = AsyncStream.makeStream(of: MemoryEvent.self)
    // A trailing closure is the report.
    let memory = try HostMemory(scheduler: scheduler) { continuation.yield($0) }
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    let (id, app) = try await launchNotes(on: host, memory)
    let removal = Removal(app: app, method: .terminate, reason: "chosen a moment ago")
    await memory.carryOut(removal, on: host)
    #expect(await host.state(of: id) == .active)
    // It may be chosen again.
    try await leaveAndWait(host, id)
    await memory.carryOut(removal, on: host)
    await wait(host, id, for: .notRunning)
    continuation.finish()
    for await event in events { if case .removal = event { reported.add(1, ordering: .relaxed) } }
    #expect(reported.load(ordering: .relaxed) == 1, "the first was not carried out")
  }

  /// It comes to the front no faster than it is let.
  private struct Coming: AppDelegate {
    let isHeld: AtomicBox<Bool>
    let mayEnter: DispatchSemaphore
    func willEnterForeground() async { if isHeld.value { mayEnter.wait() } }
  }

  // R-MEM-01, R-MEM-11
  @Test(.timeLimit(.minutes(1))) func whoIsOnItsWayToTheFrontStays() async throws {
    let scheduler = try Scheduler()
    let memory = try HostMemory(scheduler: scheduler)
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    let mayEnter = DispatchSemaphore(value: 0)
    let isHeld = AtomicBox(false)
    let own = AtomicBox<[AppMemory]>([])
    let id = await host.register(Manifest(identifier: "notes"), memory: memory) { _, memory in
      own.change { $0.append(memory) }
      return Coming(isHeld: isHeld, mayEnter: mayEnter)
    }
    try await launchAndWait(host, id)
    let app = try #require(own.value.first)
    try await leaveAndWait(host, id)
    #expect(await host.state(of: id) == .suspended)
    var removal = Removal(app: app.number, method: .terminate, reason: "chosen while it was suspended")
    removal.rises = app.rises
    isHeld.change { $0 = true }
    try await host.bringForward(id)
    await wait(host, id, for: .inactive)
    await memory.carryOut(removal, on: host)
    #expect(await host.state(of: id) == .inactive)
    isHeld.change { $0 = false }
    mayEnter.signal()
    await wait(host, id, for: .active)
    // By now it is where it was, but was used since.
    try await leaveAndWait(host, id)
    #expect(await host.state(of: id) == .suspended)
    await memory.carryOut(removal, on: host)
    #expect(await host.state(of: id) == .suspended)
    // Its next life was not chosen.
    removal.rises = app.rises
    try await host.terminate(id)
    await wait(host, id, for: .notRunning)
    try await launchAndWait(host, id)
    try await leaveAndWait(host, id)
    #expect(await host.state(of: id) == .suspended)
    await memory.carryOut(removal, on: host)
    #expect(await host.state(of: id) == .suspended)
    removal.rises = app.rises
    await memory.carryOut(removal, on: host)
    await wait(host, id, for: .notRunning)
  }

  /// Nobody needs its memory: who cannot be hibernated is not terminated for it.
  // R-MEM-08
  @Test(.timeLimit(.minutes(1))) func whoIsIdleAndHandsNothingOverStays() async throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "opportune-idle-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    let scheduler = try Scheduler()
    let told = AtomicBox<[String]>([])
    let memory = try HostMemory(
      scheduler: scheduler, store: HibernationStore(path: path, bytes: 4 << 20), io: nil,
      report: { event in if case .notStored = event { told.change { $0.append("\(event)") } } })
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    let (id, app) = try await launchNotes(on: host, memory)
    try await leaveAndWait(host, id)
    let removal = Removal(app: app, method: .hibernate, reason: "it is idle", isOptional: true)
    for _ in 0..<2 { await memory.carryOut(removal, on: host) }
    #expect(await host.state(of: id) == .suspended)
    let why = "notes was not hibernated: it hands nothing over"
    #expect(told.value.count == 1 && told.value[0].hasSuffix(why), "\(told.value)")
    // The next suspension is another.
    try await host.bringForward(id)
    await wait(host, id, for: .active)
    try await leaveAndWait(host, id)
    await memory.carryOut(removal, on: host)
    #expect(told.value.count == 2)
    await memory.carryOut(Removal(app: app, method: .hibernate, reason: "memory is short"), on: host)
    await wait(host, id, for: .notRunning)
  }

  /// Ends whoever is suspended.
  private struct Strict: RemovalChoosing {
    var idleLimit: Duration? { .milliseconds(1) }
    func choose(_ candidates: [RemovalCandidate], excess: UInt64, reading: MemoryReading) -> Removal? { nil }
    func overdue(_ candidates: [RemovalCandidate]) -> [Removal] {
      candidates.filter { $0.standing == .suspended }
        .map { Removal(app: $0.app, method: .terminate, reason: "\($0.name) was suspended.") }
    }
  }

  // R-MEM-08, R-MEM-09
  @Test(.timeLimit(.minutes(1))) func anotherPolicyIsAskedWhoIsIdleToo() async throws {
    let scheduler = try Scheduler()
    var configuration = MemoryConfiguration()
    configuration.removal = Strict()
    let memory = try HostMemory(scheduler: scheduler, configuration: configuration)
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    try await memory.serve(host)
    let id = await host.register(Manifest(identifier: "notes"), memory: memory) { _, _ in Silent() }
    try await launchAndWait(host, id)
    try await host.leave(id)
    await wait(host, id, for: .notRunning)
  }

  /// Memory was short before there was a host to carry it out.
  // R-MEM-01
  @Test(.timeLimit(.minutes(1))) func whoWasChosenBeforeTheHostIsServedGoes() async throws {
    let scheduler = try Scheduler()
    var configuration = MemoryConfiguration()
    configuration.limit = .budget(16 << 20)
    let memory = try HostMemory(scheduler: scheduler, configuration: configuration)
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    let id = await host.register(Manifest(identifier: "notes"), memory: memory) { _, own in
      try? own.setOutside(bytes: 4 << 20)
      return Silent()
    }
    try await launchAndWait(host, id)
    try await leaveAndWait(host, id)
    // The brokers are told after who observes.
    #expect(await host.state(of: id) == .suspended)
    let front = memory.broker.makeMemory(named: "front")
    try front.setOutside(bytes: 9 << 20)
    #expect(memory.broker.relieve().removals.isEmpty, "it was asked for already")
    try await memory.serve(host)
    await wait(host, id, for: .notRunning)
  }

  /// Its image takes a while.
  private struct Slow: HibernatingApp {
    let mayAnswer: DispatchSemaphore
    func snapshot() -> [UInt8]? {
      mayAnswer.wait()
      return nil
    }
    func handOver() throws -> HandedState { HandedState([1]) }
    func takeOver(_ state: HandedState) throws {}
  }

  /// It still answers for its image when it is chosen.
  // R-MEM-01, R-MEM-04
  @Test(.timeLimit(.minutes(1))) func whoIsStoppingIsHibernatedOnceItIsSuspended() async throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "opportune-stopping-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    let scheduler = try Scheduler()
    let memory = try HostMemory(
      scheduler: scheduler, store: HibernationStore(path: path, bytes: 4 << 20), io: nil)
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    try await memory.serve(host)
    let mayAnswer = DispatchSemaphore(value: 0)
    let numbers = AtomicBox<[UInt32]>([])
    let id = await host.register(Manifest(identifier: "notes"), memory: memory) { _, own in
      numbers.change { $0.append(own.number) }
      return Slow(mayAnswer: mayAnswer)
    }
    try await launchAndWait(host, id)
    try await host.leave(id)
    await wait(host, id, for: .stopping)
    await memory.carryOut(
      Removal(app: try #require(numbers.value.first), method: .hibernate, reason: "chosen a moment ago"),
      on: host)
    #expect(await host.state(of: id) == .stopping)
    mayAnswer.signal()
    await wait(host, id, for: .hibernated)
  }

  /// What a slice has in use when its app is ended goes with the slice.
  // R-MEM-05, R-LIFE-08
  @Test(.timeLimit(.minutes(1))) func whatTheLastSliceHadInUseIsTakenBackAfterIt() async throws {
    let scheduler = try Scheduler()
    let memory = try HostMemory(scheduler: scheduler)
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    let regions = AtomicBox<[Purgeable<UInt8>]>([])
    let id = await host.register(Manifest(identifier: "notes"), memory: memory) { _, own in
      if let region = try? own.purgeable(of: UInt8.self, count: 1) { regions.change { $0.append(region) } }
      return Silent()
    }
    try await launchAndWait(host, id)
    await end(id, memory, try #require(regions.value.first), on: host)
    try await host.terminate(id)
    await wait(host, id, for: .notRunning)
  }

  private func end(_ id: AppID, _ memory: HostMemory, _ region: Purgeable<UInt8>, on host: isolated AppHost) {
    region.withContents { _ in memory.takeBack(id) }
    #expect(!region.isPurged, "it was in use")
    memory.stands(id, AppSnapshot(state: .notRunning, audio: nil, isTracking: false))
    #expect(region.isPurged)
  }
}
