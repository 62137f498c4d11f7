import Synchronization

/// Allocates small numbers, for indices of arrays; released numbers are reused. Never more than the maximum
/// in use at once, rounded up to a block.
///
/// Safe on any thread, lock-free.
final class SlotPool: Sendable {
  static let blockCount = 64 * 64

  /// One bit for each number; set while in use.
  private let words: [AtomicWord] = (0..<64).map { _ in AtomicWord() }
  /// The next block of numbers, used once all of these were in use.
  private let next = AtomicLazyReference<SlotPool>()

  func take() -> Int {
    var (pool, base) = (self, 0)
    while true {
      for (index, word) in pool.words.enumerated() {
        if let bit = word.take() { return base + index * 64 + bit }
      }
      pool = pool.next.load() ?? pool.next.storeIfNil(SlotPool())
      base += Self.blockCount
    }
  }

  func giveBack(_ slot: Int) {
    var pool = self
    for _ in 0..<slot / Self.blockCount {
      guard let next = pool.next.load() else { return }
      pool = next
    }
    pool.words[slot % Self.blockCount / 64].giveBack(slot % 64)
  }
}

private final class AtomicWord: Sendable {
  private let bits = Atomic<UInt64>(0)

  func take() -> Int? {
    var seen = bits.load(ordering: .relaxed)
    while seen != .max {
      let bit = (~seen).trailingZeroBitCount
      let (exchanged, original) = bits.compareExchange(
        expected: seen, desired: seen | 1 << UInt64(bit), ordering: .relaxed)
      if exchanged { return bit }
      seen = original
    }
    return nil
  }

  func giveBack(_ bit: Int) { bits.bitwiseAnd(~(1 << UInt64(bit)), ordering: .relaxed) }
}
