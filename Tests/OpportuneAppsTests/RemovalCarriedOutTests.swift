import OpportuneMemory
import Synchronization
import TestSupport
import Testing

@testable import Opportune

@Suite struct RemovalCarriedOutTests {
  private struct Plain: AppDelegate {}

  /// Between the choice and the host's strand a person may have brought the app forward.
  // R-MEM-01, R-MEM-09
  @Test(.timeLimit(.minutes(1))) func whoIsInFrontByNowStays() async throws {
    let scheduler = try Scheduler()
    let reported = Atomic<Int>(0)
    let (events, continuation) = AsyncStream.makeStream(of: MemoryEvent.self)
    let memory = try HostMemory(scheduler, report: { continuation.yield($0) })
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    let numbers = AtomicBox<[UInt32]>([])
    let id = await host.register(Manifest(identifier: "notes"), memory: memory) { _, own in
      numbers.change { $0.append(own.number) }
      return Plain()
    }
    try await host.launch(id)
    await wait(host, id, for: .active)
    let removal = Removal(app: try #require(numbers.value.first), way: .terminate, reason: "chosen a moment ago")
    await memory.carryOut(removal, on: host)
    #expect(await host.state(of: id) == .active)
    // It may be chosen again.
    try await host.leave(id)
    await wait(host, id, for: .suspended)
    await memory.carryOut(removal, on: host)
    await wait(host, id, for: .notRunning)
    continuation.finish()
    for await event in events { if case .removal = event { reported.add(1, ordering: .relaxed) } }
    #expect(reported.load(ordering: .relaxed) == 1, "the first was not carried out")
  }
}
