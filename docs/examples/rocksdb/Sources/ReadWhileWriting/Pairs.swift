import Synchronization

/// What is in the database: `count` keys, each with the number of the write that wrote it last. A value says
/// which key and which write it is of, so that every answer can be checked.
///
/// Writes are numbered from 1 and come one after the other; reads come from any thread.
final class Pairs: @unchecked Sendable {
  static let keyBytes = 16

  let count: Int
  let valueBytes: Int
  /// The last write of each key that has ended. Atomics, so shared; freed by deinit.
  private let ended: UnsafeMutablePointer<Atomic<UInt32>>
  private let begun = Atomic<UInt32>(0)

  init(count: Int, valueBytes: Int) {
    self.count = count
    self.valueBytes = valueBytes
    ended = .allocate(capacity: count)
    for key in 0..<count { (ended + key).initialize(to: Atomic(0)) }
  }

  deinit {
    ended.deinitialize(count: count)
    ended.deallocate()
  }

  /// The key's bytes, in the order of keys.
  func putKey(_ key: Int, into bytes: UnsafeMutableRawBufferPointer) {
    bytes.storeBytes(of: UInt64(key).bigEndian, toByteOffset: 0, as: UInt64.self)
    bytes.storeBytes(of: 0, toByteOffset: 8, as: UInt64.self)
  }

  /// The value that a write gives the key: the write, then numbers that half can be compressed away of.
  func putValue(of key: Int, write: UInt32, into bytes: UnsafeMutableRawBufferPointer) {
    var random = Random(seed: UInt64(key) << 32 | UInt64(write))
    bytes.storeBytes(of: UInt64(write), toByteOffset: 0, as: UInt64.self)
    var word = random.next()
    for offset in stride(from: 8, to: valueBytes - 7, by: 8) {
      if offset < valueBytes / 2 { word = random.next() }
      bytes.storeBytes(of: word, toByteOffset: offset, as: UInt64.self)
    }
    for offset in (valueBytes & ~7)..<valueBytes { bytes[offset] = 0 }
  }

  /// The keys of a write.
  func keys(of write: UInt32, count: Int) -> [Int] {
    var random = Random(seed: UInt64(write) ^ 0x5eed)
    return (0..<count).map { _ in random.below(self.count) }
  }

  /// Before a write: readers may find it from here on.
  func begin(_ write: UInt32) { begun.store(write, ordering: .releasing) }

  /// After a write: readers must find it, or a later one. Paired with the load of `oldest(of:)`.
  func end(_ write: UInt32, of keys: [Int]) {
    for key in keys { ended[key].store(write, ordering: .releasing) }
  }

  /// Before a read: the oldest write that it may find.
  func oldest(of key: Int) -> UInt32 { ended[key].load(ordering: .acquiring) }

  /// After a read: nil where the value is right, else what is wrong.
  func fault(
    in value: UnsafeMutableRawBufferPointer, count found: Int?, of key: Int, since oldest: UInt32,
    scratch: UnsafeMutableRawBufferPointer
  ) -> String? {
    guard found == valueBytes else { return "key \(key) has \(found.map(String.init) ?? "no") bytes" }
    let write = value.loadUnaligned(fromByteOffset: 0, as: UInt64.self)
    guard write >= UInt64(oldest), write <= UInt64(begun.load(ordering: .acquiring)) else {
      return "key \(key) is of write \(write), and write \(oldest) had ended before the read"
    }
    putValue(of: key, write: UInt32(write), into: scratch)
    for index in 0..<valueBytes where value[index] != scratch[index] {
      return "key \(key) of write \(write) differs at byte \(index)"
    }
    return nil
  }
}

/// SplitMix64: the same numbers for every contender.
struct Random {
  private var state: UInt64
  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var word = state
    word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
    word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
    return word ^ (word >> 31)
  }

  mutating func below(_ bound: Int) -> Int { Int(next().multipliedFullWidth(by: UInt64(bound)).high) }
  /// 0 exclusive to 1.
  mutating func unit() -> Double { (Double(next() >> 11) + 1) * 0x1p-53 }
}
