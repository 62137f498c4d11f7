import Foundation
import OpportuneModels
import TestSupport
import Testing

@testable import Opportune
@testable import OpportuneApps

/// A disk that accepts no content while its gate is closed. The keeper's strand owns it; a test accesses what
/// is in boxes.
private final class GatedDisk: StoreDevice, @unchecked Sendable {
  struct Counts: Sendable {
    var isAtGate = false
    var indexWrites = 0
    var contentBytes = 0
  }
  private let disk = CrashDisk(size: 64 << 20)
  private let gate = DispatchSemaphore(value: 0)
  private let mayStop = AtomicBox(false)
  let counts = AtomicBox(Counts())

  var size: Int { disk.size }

  func close() {
    mayStop.change { $0 = true }
    counts.change { $0 = Counts() }
  }
  func open() { gate.signal() }

  func read(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(StoreError) {
    try disk.read(bytes, at: offset)
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(StoreError) {
    guard offset >= 128 << 10 else {
      counts.change { $0.indexWrites += 1 }
      return try disk.write(bytes, at: offset)
    }
    if mayStop.value {
      mayStop.change { $0 = false }
      counts.change { $0.isAtGate = true }
      gate.wait()
    }
    counts.change { $0.contentBytes += bytes.count }
    try disk.write(bytes, at: offset)
  }

  func synchronise() throws(StoreError) { try disk.synchronise() }
}

@Suite(.bounded) struct AbsenceTests {
  private final class Notes: HibernatingApp {
    let block: MemoryBlock
    init(_ memory: AppMemory, bytes: Int) throws {
      block = try memory.allocate(bytes: bytes)
      var generator = SplitMix64(seed: 9)
      for word in block.bytes.bindMemory(to: UInt64.self).indices {
        block.bytes.storeBytes(of: generator.next(), toByteOffset: word * 8, as: UInt64.self)
      }
    }
    func handOver() throws -> HandedState { HandedState([1], memory: [HeldMemory(block)]) }
    func takeOver(_ state: HandedState) throws {}
  }

  /// It has its memory back while the store is amid writing it, and waits for nobody; what the store has by
  /// then is neither the old state nor the new.
  // R-LIFE-07, R-MEM-05, R-MEM-07
  @Test(.timeLimit(.minutes(1)), arguments: [true, false], [256 << 10, 16 << 20])
  func whatAnAppHasBackIsNotSaved(isWantedBack: Bool, bytes: Int) async throws {
    let disk = GatedDisk()
    let scheduler = try Scheduler()
    let (events, continuation) = AsyncStream.makeStream(of: MemoryEvent.self)
    let memory = try HostMemory(
      scheduler: scheduler, store: HibernationStore(disk), io: nil,
      report: { if case .level = $0 {} else { continuation.yield($0) } })
    let host = try patientHost(scheduler: scheduler, brokers: [memory])
    try await memory.serve(host)
    let lives = AtomicBox<[Notes]>([])
    let id = await host.register(Manifest(identifier: "notes"), memory: memory) { _, own in
      guard let notes = try? Notes(own, bytes: bytes) else { return Silent() }
      lives.change { $0.append(notes) }
      return notes
    }
    func hibernate() async throws {
      await wait(host, id, for: .active)
      try await leaveAndWait(host, id)
      try await host.post(.app(id, .hibernate))
    }
    var iterator = events.makeAsyncIterator()
    try await host.launch(id)
    disk.close()
    try await hibernate()
    try await until { disk.counts.value.isAtGate }
    if !isWantedBack {
      try await host.terminate(id)
      await wait(host, id, for: .notRunning)
    }
    try await host.bringForward(id)
    await wait(host, id, for: .active)
    if isWantedBack { guard case .restored(id, _) = await iterator.next() else { throw Failure() } }
    for notes in lives.value { notes.block.bytes.initializeMemory(as: UInt8.self, repeating: 0xEE) }
    disk.open()

    // The store does one thing after the other.
    try await hibernate()
    guard case .stored(id, _, let stored) = await iterator.next() else { throw Failure() }
    #expect(stored < bytes / 4, "it has changed since")
    let counts = disk.counts.value
    #expect(counts.indexWrites == 2, "what was given up was never in the index")
    #expect(counts.contentBytes < max(bytes, 4 << 20), "nor written to its end")
    try await host.bringForward(id)
    guard case .restored(id, _) = await iterator.next() else { throw Failure() }
    #expect(lives.value.last?.block.bytes.allSatisfy { $0 == 0xEE } == true)
  }

  private struct Failure: Error {}
}
