import Foundation
import TestSupport
import Testing

@testable import Opportune

@Suite(.bounded) struct StoreKeeperTests {
  /// However many, on a worker's stack.
  // R-MEM-05
  @Test func manyPiecesAreHandedOver() async throws {
    let path = FileManager.default.temporaryDirectory.appending(path: "opportune-pieces-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: path) }
    let scheduler = try Scheduler()
    let strand = try scheduler.makeApp(named: "store", band: .background).makeStrand(named: "keeper")
    let keeper = StoreKeeper(try HibernationStore(path: path, bytes: 4 << 20), strand)
    let block = try MemoryBroker().makeMemory(named: "app").allocate(bytes: 1)
    let pieces = Array(repeating: HeldMemory(block), count: 20_000)
    let record = try await keeper.save("app", HandedState([7], memory: pieces), during: Absence())
    #expect(try record.load(into: pieces) == [7])
    try await scheduler.shutdown()
  }
}
