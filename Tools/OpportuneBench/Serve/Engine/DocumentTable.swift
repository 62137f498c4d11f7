import Synchronization

/// What is known of each document, in shards behind a lock each: background writes it, queries read it.
final class DocumentTable: Sendable {
  struct Facts: Sendable, Equatable {
    var bytes = 0
    /// How often it was indexed.
    var generation = 0
  }

  private final class Shard: Sendable {
    let facts = Mutex<[UInt32: Facts]>([:])
  }

  private let shards = (0..<64).map { _ in Shard() }

  func update(_ document: UInt32, bytes: Int) {
    shards[Int(document) % shards.count].facts.withLock { facts in
      let generation = facts[document]?.generation ?? 0
      facts[document] = Facts(bytes: bytes, generation: generation + 1)
    }
  }

  func facts(of document: UInt32) -> Facts? {
    shards[Int(document) % shards.count].facts.withLock { $0[document] }
  }
}
