/// Whole numbers of fixed and of variable length, lowest byte first.
extension [UInt8] {
  mutating func put<Value: FixedWidthInteger>(_ value: Value) {
    for shift in stride(from: 0, to: Value.bitWidth, by: 8) {
      append(UInt8(truncatingIfNeeded: value >> Value(shift)))
    }
  }

  /// Seven bits a byte; all but the last have the highest bit set.
  mutating func putVariable(_ value: UInt64) {
    var left = value
    while left >= 0x80 {
      append(UInt8(truncatingIfNeeded: left) | 0x80)
      left >>= 7
    }
    append(UInt8(left))
  }
}

/// Reads what was put, and refuses to read beyond the end.
struct ByteReader {
  private let bytes: UnsafeRawBufferPointer
  private(set) var position: Int

  /// - Parameter bytes: must outlive the reader.
  init(_ bytes: UnsafeRawBufferPointer, at position: Int = 0) {
    self.bytes = bytes
    self.position = position
  }

  var isAtEnd: Bool { position >= bytes.count }

  mutating func take<Value: FixedWidthInteger>(_ type: Value.Type = Value.self) throws(EngineError) -> Value {
    let size = MemoryLayout<Value>.size
    guard position + size <= bytes.count else { throw Self.ended }
    let value = bytes.loadUnaligned(fromByteOffset: position, as: Value.self)
    position += size
    return Value(littleEndian: value)
  }

  mutating func takeVariable() throws(EngineError) -> UInt64 {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while position < bytes.count, shift < 64 {
      let byte = bytes[position]
      position += 1
      value |= UInt64(byte & 0x7F) << shift
      if byte < 0x80 { return value }
      shift += 7
    }
    throw Self.ended
  }

  mutating func take(count: Int) throws(EngineError) -> UnsafeRawBufferPointer {
    guard count >= 0, count <= bytes.count - position else { throw Self.ended }
    defer { position += count }
    return UnsafeRawBufferPointer(rebasing: bytes[position..<position + count])
  }

  private static let ended = EngineError(.corrupt, "a value runs beyond the end of its bytes")
}

/// A checksum of bytes, eight at a time: it finds what a device or a lost write changes, and no attacker.
func checksum(of bytes: UnsafeRawBufferPointer) -> UInt32 {
  var state: UInt64 = 0x9E37_79B9_7F4A_7C15 ^ UInt64(bytes.count)
  var offset = 0
  while offset + 8 <= bytes.count {
    state = (state ^ bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) &* 0xD6E8_FEB8_6659_FD93
    state ^= state >> 32
    offset += 8
  }
  while offset < bytes.count {
    state = (state ^ UInt64(bytes[offset])) &* 0xD6E8_FEB8_6659_FD93
    state ^= state >> 32
    offset += 1
  }
  // What the last bytes changed is in the highest bits alone by now.
  state = (state ^ state >> 29) &* 0x9E37_79B9_7F4A_7C15
  state = (state ^ state >> 32) &* 0xD6E8_FEB8_6659_FD93
  return UInt32(truncatingIfNeeded: state >> 32)
}
