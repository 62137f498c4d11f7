/// The SplitMix64 generator: small, and with the same sequence for the same seed on every machine. For tests
/// and measurements, not for secrets.
@usableFromInline
package struct SplitMix64: RandomNumberGenerator, Sendable {
  @usableFromInline var state: UInt64

  @inlinable package init(seed: UInt64) { state = seed }

  /// Makes one of many generators of a seed. Its sequence does not overlap with those of its neighbours or of
  /// a neighbouring seed.
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

  /// An array of random bytes.
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
