import Synchronization

/// A block of a segment.
struct BlockKey: Hashable, Sendable {
  /// The segment's number in this process.
  let segment: UInt64
  let block: Int
}

/// Where the cache keeps blocks; it may lose any at any time.
protocol BlockMemory: Sendable {
  func withBlock<Value>(
    _ key: BlockKey, _ body: (UnsafeRawBufferPointer) throws -> Value
  ) throws -> Value?
  func insert(_ bytes: UnsafeRawBufferPointer, for key: BlockKey)
}

/// Blocks of segments in memory that is smaller than the index.
///
/// A block that is being read already is waited for, whoever asked for it, and not read twice: so a query may
/// come to wait for what the background asked for.
final class BlockCache: Sendable {
  let memory: any BlockMemory
  private let runtime: any EngineRuntime
  private let background: WorkAccount
  private let flights = Mutex<[BlockKey: Announced]>([:])
  private let nextFlight = Atomic<UInt64>(0)
  let hits = Atomic<Int>(0)
  let misses = Atomic<Int>(0)
  /// Misses that waited for a read of somebody else's.
  let waits = Atomic<Int>(0)

  /// Blocks in a row, as one read brought them.
  private struct Run: Sendable {
    let first: Int
    let bytes: [UInt8]
  }

  private struct Announced: Sendable {
    let number: UInt64
    let flight: Flight<Run>
  }

  init(memory: any BlockMemory, runtime: any EngineRuntime, background: WorkAccount = WorkAccount()) {
    self.memory = memory
    self.runtime = runtime
    self.background = background
  }

  /// Lets a query look at a block.
  func withBlock<Value>(
    _ block: Int, of segment: SegmentFile, _ body: (UnsafeRawBufferPointer) throws -> Value
  ) async throws -> Value {
    let key = BlockKey(segment: segment.number, block: block)
    if let value = try memory.withBlock(key, body) {
      hits.add(1, ordering: .relaxed)
      return value
    }
    misses.add(1, ordering: .relaxed)
    let run = try await run(block, count: 1, of: segment, for: .foreground)
    return try run.bytes.withUnsafeBytes { bytes in
      let start = (block - run.first) * DiskBlock.size
      let own = UnsafeRawBufferPointer(rebasing: bytes[start..<start + DiskBlock.size])
      memory.insert(own, for: key)
      return try body(own)
    }
  }

  /// Reads blocks for the background, which compares their checksums; what nobody else waits for is not kept.
  func scrub(_ first: Int, count: Int, of segment: SegmentFile) async throws {
    _ = try await run(first, count: count, of: segment, for: .background)
  }

  private func run(_ first: Int, count: Int, of segment: SegmentFile, for side: Side) async throws -> Run {
    let account = side == .background ? background : WorkAccount.ofRequest
    let keys = (first..<first + count).map { BlockKey(segment: segment.number, block: $0) }
    if let known = flights.withLock({ $0[keys[0]] }) {
      waits.add(1, ordering: .relaxed)
      let run = try await account.waitForOthers { try await known.flight.value() }
      // One of the background's may have begun behind the first block, and so have fewer of ours.
      if run.first <= first, run.first + run.bytes.count / DiskBlock.size >= first + count { return run }
    }
    let number = nextFlight.add(1, ordering: .relaxed).newValue
    // By whoever announced it: the read may be over before it is announced.
    defer {
      flights.withLock { flights in
        for key in keys where flights[key]?.number == number { flights[key] = nil }
      }
    }
    return try await account.wait {
      try await runtime.run(side) { flight in
        let announced = Announced(number: number, flight: flight)
        flights.withLock { flights in
          for key in keys where flights[key] == nil { flights[key] = announced }
        }
      } _: {
        let bytes = try await segment.readBlocks(first, count: count, for: side)
        account?.end()
        return Run(first: first, bytes: bytes)
      }
    }
  }
}
