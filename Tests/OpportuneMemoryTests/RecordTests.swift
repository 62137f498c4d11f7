import Glibc
import OpportuneModels
import TestSupport
import Testing

@testable import OpportuneMemory

/// How records are stored: block by block, each as it is, compressed, or not at all.
@Suite(.bounded) struct RecordTests {
  private static let block = RecordTable.blockBytes

  private func noise(_ count: Int, seed: UInt64) -> [UInt8] {
    var generator = SplitMix64(seed: seed)
    let words = (0..<(count + 7) / 8).map { _ in generator.next() }
    return words.withUnsafeBytes { [UInt8]($0[..<count]) }
  }

  /// What compresses to about a half.
  private func text(_ count: Int, seed: UInt64) -> [UInt8] { noise(count, seed: seed).map { 97 + $0 % 16 } }

  private func save(_ store: HibernationStore, _ app: String, _ parts: [[UInt8]]) throws -> Int {
    let memory = parts.map { part in
      let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: part.count, alignment: 16)
      buffer.copyBytes(from: part)
      return buffer
    }
    defer { for buffer in memory { buffer.deallocate() } }
    return try store.save(app, memory.map { UnsafeRawBufferPointer($0) })
  }

  // R-MEM-06, R-MEM-07
  @Test(arguments: [1, 2, 3] as [UInt64]) func partsOfEachKindAndLengthComeBack(seed: UInt64) throws {
    var generator = SplitMix64(seed: seed)
    let store = try HibernationStore(CrashDisk(size: 16 << 20))
    let lengths = [
      0, 1, 7, 4095, 4096, 32_767, 32_768, 100_001, Self.block - 1, Self.block, Self.block + 1, 700_003,
    ]
    for round in 0..<6 {
      let parts = (0..<Int.random(in: 1...6, using: &generator)).map { _ -> [UInt8] in
        let count = lengths.randomElement(using: &generator) ?? 0
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: return noise(count, seed: generator.next())
        case 1: return text(count, seed: generator.next())
        case 2: return [UInt8](repeating: 0, count: count)
        default:
          // Blocks of each kind in one part.
          let third = count / 3
          return text(third, seed: seed) + [UInt8](repeating: 0, count: third)
            + noise(count - 2 * third, seed: seed)
        }
      }
      _ = try save(store, "app", parts)
      let loaded = try store.load("app")
      #expect(loaded == parts, "seed \(seed), round \(round), lengths \(parts.map(\.count))")
    }
  }

  // R-MEM-05
  @Test func eachBlockIsStoredAsIsBest() throws {
    let store = try HibernationStore(CrashDisk(size: 16 << 20))
    #expect(try save(store, "noise", [noise(8 * Self.block, seed: 1)]) < 8 * Self.block + 256)
    #expect(try save(store, "text", [text(8 * Self.block, seed: 2)]) < 5 * Self.block)
    #expect(try save(store, "zeros", [[UInt8](repeating: 0, count: 8 * Self.block)]) < 256)
  }

  /// Blocks that are written as they are, as much at a time as the disk is told to begin with.
  // R-MEM-05
  @Test func blocksThatFollowEachOtherAreWrittenTogether() throws {
    let disk = CrashDisk(size: 4 << 20)
    let store = try HibernationStore(disk)
    disk.sync()
    _ = try save(store, "app", [noise(8 * Self.block, seed: 1)])
    #expect(disk.logCount == 2 + 2 + 4, "two of 1 MiB, the table, and what goes with the index")
    #expect(try store.load("app") == [noise(8 * Self.block, seed: 1)])
  }

  /// Wherever it is among pages that do not compress.
  // R-MEM-05
  @Test func aPageOfZerosIsNotWritten() throws {
    let store = try HibernationStore(CrashDisk(size: 4 << 20))
    for page in [0, 1, 17, 40, 63] {
      var part = noise(Self.block, seed: UInt64(page))
      part.replaceSubrange(page * 4096..<(page + 1) * 4096, with: repeatElement(0, count: 4096))
      #expect(try save(store, "app", [part]) < Self.block - 3500, "page \(page)")
      #expect(try store.load("app") == [part])
    }
  }

  /// In any block, in the table, or in the gaps between them.
  // R-MEM-06
  @Test(arguments: [1, 2, 3] as [UInt64]) func aFlippedBitOfALargeRecordIsNeverLoaded(seed: UInt64) throws {
    var generator = SplitMix64(seed: seed)
    let disk = CrashDisk(size: 4 << 20)
    let parts = [text(500, seed: seed), noise(300_001, seed: seed), text(400_000, seed: seed)]
    let store = try HibernationStore(disk)
    let length = try save(store, "app", parts)
    let whole = disk.seen
    var refused = 0
    for _ in 0..<150 {
      let at = StoreIndex.dataOffset + Int.random(in: 0..<length, using: &generator)
      disk.seen[at] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
      do {
        let loaded = try store.load("app")
        #expect(loaded == parts, "seed \(seed), byte \(at)")
      } catch {
        #expect(error.code == .damagedRecord)
        refused += 1
      }
      disk.seen[at] = whole[at]
    }
    #expect(refused > 100)
  }

  /// A record that was read from what the store has written over since.
  // R-MEM-07
  @Test func anotherRecordInItsPlaceIsNotTakenForIt() throws {
    let store = try HibernationStore(CrashDisk(size: 4 << 20))
    let old = noise(50_000, seed: 1)
    _ = try save(store, "app", [old])
    let record = try store.record(of: "app")
    #expect(try record.load() == [old])
    try store.remove("app")
    _ = try save(store, "app", [noise(50_000, seed: 2)])
    #expect(throws: StoreError(.damagedRecord, "")) { try record.load() }
  }

  /// Straight into its place, without touching pages that are to be zero, and given back where it is damaged.
  // R-MEM-05, R-MEM-07
  @Test func memoryIsFilledInPlace() throws {
    let disk = CrashDisk(size: 8 << 20)
    let store = try HibernationStore(disk)
    let app = try makeBroker().makeMemory(named: "app")
    let block = try app.allocate(bytes: 4 * Self.block)
    madvise(block.bytes.baseAddress, block.count, 15)  // no huge pages, which are touched as one
    let region = try app.purgeable(of: UInt8.self, count: 2 * Self.block, isVolatile: false)
    let content = noise(Self.block, seed: 3)
    block.bytes.copyBytes(from: content)
    region.fill(9)
    let memory = [HeldMemory(block), HeldMemory(region)]
    func hibernate() throws {
      try memory[0].withContent { first in
        try memory[1].withContent { second in
          _ = try store.save("app", [UnsafeRawBufferPointer(start: nil, count: 0), first, second])
        }
      }
      for held in memory { held.giveBack() }
    }
    try hibernate()
    #expect(app.ledger.inUse == 0)
    #expect(try store.record(of: "app").load(into: memory) == [])
    #expect(pagesInCore(block.bytes) == Self.block / pageSize)
    #expect(block.bytes[..<Self.block].elementsEqual(content) && region.isAll(9) == true)
    #expect(app.ledger.inUse == UInt64(6 * Self.block))
    #expect(try store.record(of: "app").load(into: [memory[0]]) == nil, "it was saved with more")

    try hibernate()
    disk.seen[try store.record(of: "app").entry.offset + Self.block / 2] ^= 1
    #expect(throws: StoreError(.damagedRecord, "")) { try store.record(of: "app").load(into: memory) }
    #expect(app.ledger.inUse == 0 && pagesInCore(block.bytes) == 0)
  }

  /// Others' caches make it, as for what is new.
  // R-MEM-01, R-MEM-07
  @Test(arguments: [true, false]) func whatComesBackNeedsRoom(isBlock: Bool) throws {
    let store = try HibernationStore(CrashDisk(size: 8 << 20))
    let broker = try makeBroker(budget: 16 << 20) { $0.gauge = try PressureGauge(margin: 0) }
    let app = broker.makeMemory(named: "app", standing: .suspended)
    let memory =
      isBlock
      ? HeldMemory(try app.allocate(bytes: 4 << 20))
      : HeldMemory(try app.purgeable(of: UInt8.self, count: 4 << 20, isVolatile: false))
    _ = try memory.withContent { try store.save("app", [UnsafeRawBufferPointer(start: nil, count: 0), $0]) }
    memory.giveBack()
    let behind = broker.makeMemory(named: "behind", standing: .background)
    let caches = try (0..<11).map { _ in try behind.purgeable(of: UInt8.self, count: 1 << 20) }
    for cache in caches { cache.fill(1) }
    #expect(broker.ledger.inUse == 11 << 20)
    #expect(try store.record(of: "app").load(into: [memory]) == [])
    #expect(app.ledger.inUse == 4 << 20 && broker.ledger.inUse <= 12 << 20, "\(broker.ledger)")
  }

  /// Parts before the damage have come back by then.
  // R-MEM-05, R-MEM-07
  @Test func whatCameBackBeforeTheDamageIsGivenBackToo() throws {
    let disk = CrashDisk(size: 8 << 20)
    let store = try HibernationStore(disk)
    let app = try makeBroker().makeMemory(named: "app")
    let blocks = try (0..<2).map { try app.allocate(bytes: Self.block * ($0 + 1)) }
    for (number, block) in blocks.enumerated() {
      block.bytes.copyBytes(from: noise(block.count, seed: UInt64(number)))
    }
    let memory = blocks.map { HeldMemory($0) }
    let nothing = UnsafeRawBufferPointer(start: nil, count: 0)
    _ = try store.save("app", [nothing] + blocks.map { UnsafeRawBufferPointer($0.bytes) })
    for held in memory { held.giveBack() }
    // Sizes that were not saved so: nothing is filled with another's content.
    #expect(try store.record(of: "app").load(into: memory.reversed()) == nil)
    #expect(app.ledger.inUse == 0)
    disk.seen[try store.record(of: "app").entry.offset + Self.block + 9] ^= 1
    #expect(throws: StoreError(.damagedRecord, "")) { try store.record(of: "app").load(into: memory) }
    #expect(app.ledger.inUse == 0 && blocks.allSatisfy { pagesInCore($0.bytes) == 0 })
  }

  /// Memory that is in use when its content comes back is not taken over; what was never given back keeps
  /// what it has, and what comes after it is still found.
  // R-MEM-07
  @Test func whatWasNotGivenBackIsPassedOver() throws {
    let store = try HibernationStore(CrashDisk(size: 8 << 20))
    let app = try makeBroker().makeMemory(named: "app")
    let blocks = try (0..<3).map { _ in try app.allocate(bytes: Self.block) }
    for (number, block) in blocks.enumerated() {
      block.bytes.copyBytes(from: noise(block.count, seed: UInt64(number)))
    }
    let region = try app.purgeable(of: UInt8.self, count: pageSize, isVolatile: false)
    region.fill(5)
    let memory = blocks.map { HeldMemory($0) } + [HeldMemory(region)]
    func hibernate() throws {
      try memory[3].withContent { last in
        _ = try store.save(
          "app",
          [UnsafeRawBufferPointer(start: nil, count: 0)] + blocks.map { UnsafeRawBufferPointer($0.bytes) } + [
            last
          ])
      }
    }
    try hibernate()
    memory[2].giveBack()
    blocks[0].bytes[0] = 77
    #expect(try store.record(of: "app").load(into: memory) == [])
    #expect(blocks[0].bytes[0] == 77 && blocks[2].bytes.elementsEqual(noise(Self.block, seed: 2)))

    memory[3].giveBack()
    region.withContents { _ in
      // Another scope is making the content.
      #expect((try? store.record(of: "app").load(into: memory)) == .some(nil))
    }
  }

  /// Small frames are gathered, and written before they are too many.
  // R-MEM-05
  @Test func muchThatCompressesWellComesBack() throws {
    let disk = CrashDisk(size: 4 << 20)
    let store = try HibernationStore(disk)
    // A fourteenth of it is not easily guessed: frames of about 20 KiB.
    var state = [UInt8](repeating: 65, count: 24 * Self.block)
    for (index, byte) in zip(stride(from: 0, to: state.count, by: 14), noise(state.count / 14 + 1, seed: 4)) {
      state[index] = byte
    }
    let length = try save(store, "app", [state])
    #expect(length > 2 * Self.block && length / 24 < RecordTable.alignedFrom)
    #expect(try store.load("app") == [state])
  }

  /// Frames are padded to whole pages only where the space is the record's own.
  // R-MEM-06
  @Test func nothingIsWrittenBeyondTheFreeSpace() throws {
    let state = text(100_000, seed: 6)
    let length = try save(HibernationStore(CrashDisk(size: 4 << 20)), "app", [state])
    // Ends with the record, amid a page.
    let disk = CrashDisk(size: StoreIndex.dataOffset + length)
    let store = try HibernationStore(disk)
    #expect(try save(store, "app", [state]) == length)
    #expect(disk.size == StoreIndex.dataOffset + length)
    #expect(try store.load("app") == [state])
  }

  /// An index that is full is told, and changes nothing.
  // R-MEM-06
  @Test func anIndexWithoutRoomRefuses() throws {
    let store = try HibernationStore(CrashDisk(size: 8 << 20))
    var saved = 0
    do throws(StoreError) {
      while saved < 1000 {
        // Names that do not compress.
        let name = String(decoding: noise(255, seed: UInt64(saved)).map { 33 + $0 % 94 }, as: UTF8.self)
        do { _ = try save(store, name, [[1]]) } catch let error as StoreError { throw error } catch { break }
        saved += 1
      }
    } catch { #expect(error.code == .full) }
    #expect(saved > 200 && saved < 1000 && store.apps.count == saved)
    try store.remove(#require(store.apps.first))
    _ = try save(store, "short", [[2]])
    #expect(try store.load("short") == [[2]])
  }

  /// However well its names compress: an index that is written can be read.
  // R-MEM-06, R-MEM-07
  @Test func anIndexOfMoreThanCanBeReadIsRefused() throws {
    let disk = CrashDisk(size: 4 << 20)
    // Each takes up 8 + 255 + 32 bytes before it is compressed, and there are 24 more.
    let most = (StoreIndex.contentBytesMax - 24) / 295
    let entries = (0..<most).map { number in
      let name = String(number)
      return StoreIndex.Entry(
        name: name + String(repeating: "x", count: StoreIndex.nameBytesMax - name.utf8.count),
        offset: StoreIndex.dataOffset, length: 1, tableBytes: 1, checksum: 0)
    }
    let slot = try #require(try StoreIndex(sequence: 1, size: disk.size, entries: entries).slot())
    for number in 0..<2 {
      let start = number * StoreIndex.slotBytes
      disk.seen.replaceSubrange(start..<start + slot.count, with: slot)
    }
    let store = try HibernationStore(disk)
    #expect(store.apps.count == most && store.repairs == 0)
    #expect(throws: StoreError(.full, "")) { try save(store, String(repeating: "y", count: 255), [[1]]) }
    #expect(try HibernationStore(disk).apps.count == most)
  }

  /// The checksum is the one that zstd's frames end with.
  // R-MEM-06
  @Test func theChecksumIsThatOfZstd() throws {
    for count in [1, 3, 4, 8, 31, 32, 33, 63, 64, 1000, 4096, 100_003] {
      let content = noise(count, seed: UInt64(count))
      let end = try Compressor.frame(of: content).suffix(4).reversed().reduce(0 as UInt64) {
        $0 << 8 | UInt64($1)
      }
      #expect(content.withUnsafeBytes { checksum($0) } & 0xFFFF_FFFF == end, "\(count) bytes")
    }
  }

  /// The published values of XXH64, and each bit that flips shows, wherever it is.
  // R-MEM-06
  @Test func theChecksumIsXXH64() {
    func sum(_ text: String) -> UInt64 { Array(text.utf8).withUnsafeBytes { checksum($0) } }
    #expect(checksum(UnsafeRawBufferPointer(start: nil, count: 0)) == 0xEF46_DB37_51D8_E999)
    #expect(sum("a") == 0xD24E_C4F1_A98C_6E5B)
    #expect(sum("abc") == 0x44BC_2CF5_AD77_0999)
    #expect(sum("Nobody inspects the spammish repetition") == 0xFBCE_A83C_8A37_8BF1)
    var bytes = (0..<71).map { UInt8(truncatingIfNeeded: $0 * 37) }
    let whole = bytes.withUnsafeBytes { checksum($0) }
    for bit in 0..<8 * bytes.count {
      bytes[bit / 8] ^= 1 << UInt8(bit % 8)
      #expect(bytes.withUnsafeBytes { checksum($0) } != whole, "bit \(bit)")
      bytes[bit / 8] ^= 1 << UInt8(bit % 8)
    }
  }
}
