import Foundation
import TestSupport
import Testing

@testable import Opportune
@testable import OpportuneApps

/// Apps that are slow to hand over their state, or to take it over.
@Suite(.bounded) struct HandingOverTests {
  private let file = TemporaryPath()
  private var path: String { file.path }

  private struct Slow: HibernatingApp {
    let mayHandOver: DispatchSemaphore
    let mayTakeOver: DispatchSemaphore
    let journal: AtomicBox<[String]>

    func willEnterForeground() async { journal.change { $0.append("willEnterForeground") } }

    func handOver() throws -> HandedState {
      journal.change { $0.append("handOver") }
      mayHandOver.wait()
      return HandedState([1])
    }

    func takeOver(_ state: HandedState) throws {
      mayTakeOver.wait()
      journal.change { $0.append("takeOver \(state.bytes)") }
    }
  }

  private struct Rig {
    let host: AppHost
    let memory: HostMemory
    let id: AppID
    var events: AsyncStream<MemoryEvent>.Iterator
    let mayHandOver = DispatchSemaphore(value: 0)
    let mayTakeOver = DispatchSemaphore(value: 0)
    let journal = AtomicBox<[String]>([])

    init(_ path: String, limit: Duration? = nil) async throws {
      let (events, continuation) = AsyncStream.makeStream(of: MemoryEvent.self)
      let scheduler = try Scheduler()
      memory = try HostMemory(
        scheduler: scheduler, store: HibernationStore(path: path, bytes: 4 << 20), io: nil,
        report: { continuation.yield($0) })
      memory.hibernation.ownCallLimit = limit
      host = try patientHost(scheduler: scheduler, brokers: [memory])
      try await memory.serve(host)
      self.events = events.makeAsyncIterator()
      let slow = Slow(mayHandOver: mayHandOver, mayTakeOver: mayTakeOver, journal: journal)
      id = await host.register(Manifest(identifier: "slow"), memory: memory) { _, _ in slow }
      try await launchAndWait(host, id)
      try await leaveAndWait(host, id)
    }

    mutating func next() async -> MemoryEvent? {
      while let event = await events.next() { if case .level = event { continue } else { return event } }
      return nil
    }
  }

  // R-LIFE-07, R-MEM-05
  @Test(.timeLimit(.minutes(1))) func othersGoOnWhileAnAppHandsOver() async throws {
    var rig = try await Rig(path)
    try await rig.host.post(.app(rig.id, .hibernate))
    let journal = rig.journal
    try await until { journal.value == ["handOver"] }
    try await launchAndWait(rig.host, Manifest(identifier: "other")) { _ in Silent() }
    rig.mayHandOver.signal()
    guard case .stored(rig.id, _, _) = await rig.next() else { throw Failure("nothing was stored") }
    try await rig.host.bringForward(rig.id)
    try await launchAndWait(rig.host, Manifest(identifier: "third")) { _ in Silent() }
    rig.mayTakeOver.signal()
    guard case .restored(rig.id, _) = await rig.next() else { throw Failure("it did not come back") }
  }

  // R-LIFE-07, R-MEM-04
  @Test(.timeLimit(.minutes(1))) func whoTakesTooLongToHandOverIsTerminated() async throws {
    var rig = try await Rig(path, limit: .milliseconds(5))
    defer { rig.mayHandOver.signal() }
    try await rig.host.post(.app(rig.id, .hibernate))
    guard case .notStored(rig.id, _, let reason) = await rig.next() else {
      throw Failure("it was waited for")
    }
    #expect(reason == "it took longer than 0.005 seconds")
    await wait(rig.host, rig.id, for: .notRunning)
  }

  // R-LIFE-07, R-MEM-07
  @Test(.timeLimit(.minutes(1))) func whoTakesTooLongToTakeOverBeginsAnew() async throws {
    var rig = try await Rig(path)
    rig.mayHandOver.signal()
    defer { rig.mayTakeOver.signal() }
    try await rig.host.post(.app(rig.id, .hibernate))
    guard case .stored(rig.id, _, _) = await rig.next() else { throw Failure("nothing was stored") }
    rig.memory.hibernation.ownCallLimit = .milliseconds(5)
    try await rig.host.bringForward(rig.id)
    guard case .notRestored(rig.id, _, let reason) = await rig.next() else {
      throw Failure("it was waited for")
    }
    #expect(reason == "it took longer than 0.005 seconds")
    await wait(rig.host, rig.id, for: .active)
  }

  /// What it is handing over it takes back before anything of it runs.
  // R-MEM-07
  @Test(.timeLimit(.minutes(1))) func whoIsWantedBackWhileItHandsOverTakesOver() async throws {
    var rig = try await Rig(path)
    try await rig.host.post(.app(rig.id, .hibernate))
    let journal = rig.journal
    try await until { journal.value == ["handOver"] }
    try await rig.host.bringForward(rig.id)
    rig.mayHandOver.signal()
    rig.mayTakeOver.signal()
    guard case .restored(rig.id, _) = await rig.next() else { throw Failure("it did not come back") }
    await wait(rig.host, rig.id, for: .active)
    #expect(rig.journal.value == ["handOver", "takeOver [1]", "willEnterForeground"])
  }
}
