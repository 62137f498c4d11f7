import Opportune
import TestSupport
import Testing

/// What docs/sharing.md shows, as docs/api.md does.
@Suite(.bounded) struct SharingExamples {
  @Test func publishing() async throws {
    let scheduler = try Scheduler()
    let indexer = try scheduler.makeApp(named: "indexer", band: .background)
    @Sendable func readFiles() async -> [String: Int] { ["opportune": 2] }
    // docs: published
    let index = Published(["opportune": 1])
    indexer.task {
      let built = await readFiles()  // an hour, if need be; nobody waits
      index.publish(built)
    }
    let hits = index.value["opportune"]  // at once, on any thread
    index.update { $0.merging(["lock": 7]) { $1 } }  // where there are several writers
    // end
    #expect(hits == 1 || hits == 2)
    try await scheduler.shutdown()
    #expect(index.value["opportune"] == 2)
  }

  @Test func ceilings() async throws {
    let scheduler = try Scheduler()
    let indexer = try scheduler.makeApp(named: "indexer", band: .background)
    // docs: ceiling
    actor Cache {
      private let strand: Strand
      private var blocks: [Int: [UInt8]] = [:]

      init(_ strand: Strand) { self.strand = strand }
      nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

      func keep(_ block: [UInt8], at number: Int) { blocks[number] = block }
      func block(_ number: Int) -> [UInt8]? { blocks[number] }
    }

    let cache = Cache(try indexer.makeStrand(named: "cache", ceiling: .foreground))
    await cache.keep([1, 2, 3], at: 7)
    // end
    #expect(await cache.block(7) == [1, 2, 3])
    try await scheduler.shutdown()
  }

  @Test func locks() async throws {
    let scheduler = try Scheduler()
    @Sendable func merge(_ list: [String]) async throws -> String { list.joined(separator: "+") + "1" }
    // docs: lock
    let segments = try OpportuneLock([String](), named: "segments", in: scheduler, ceiling: .foreground)
    try await segments.withLock { list in
      let merged = try await merge(list)
      list = [merged]
    }
    // end
    #expect(try await segments.withLock { $0 } == ["1"])
    try await scheduler.shutdown()
  }
}
