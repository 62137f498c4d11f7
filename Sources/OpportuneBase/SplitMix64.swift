/// SplitMix64: small, and the same sequence for the same seed everywhere. For tests and measurements, not for
/// secrets.
@usableFromInline
package struct SplitMix64: RandomNumberGenerator, Sendable {
  @usableFromInline var state: UInt64

  @inlinable package init(seed: UInt64) { state = seed }

  /// One of many generators of a seed: neither its neighbours' numbers nor those of a neighbouring seed,
  /// shifted or not.
  package init(seed: UInt64, number: UInt64) {
    var generator = SplitMix64(seed: seed)
    generator.state = generator.next() ^ number
    state = generator.next()
  }

  @inlinable package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var word = state
    word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
    word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
    return word ^ (word >> 31)
  }

  /// So many bytes.
  package mutating func bytes(_ count: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count + 8)
    while bytes.count < count {
      let word = next()
      for shift in stride(from: 0, to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: word >> shift)) }
    }
    bytes.removeSubrange(count...)
    return bytes
  }
}
