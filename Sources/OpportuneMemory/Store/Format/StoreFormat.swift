internal import CXXHash

// The file of a hibernation store. Numbers are 8 bytes, little end first.
//
//   0         an index slot (StoreIndex): magic, version, lengths, and a zstd frame with its checksum: a
//             sequence number, the file's size, and an entry for each record: name, place, checksum
//   64 KiB    another slot: of two that can be read the one with the greater sequence number counts
//   128 KiB   records, each in one piece: first its parts, in blocks of up to 256 KiB, each as it is, as a
//             zstd frame, or, where all of it is zero, not at all; then its table (RecordTable): the lengths
//             of the parts, and of each block what is stored and its checksum
//
// So each checksum is kept by what names the bytes: the index has that of a record's table, the table those
// of its blocks. RecordWriter and RecordReader go from memory to there and back.

/// The checksum of all that is in a store but its index: XXH64, the lower half of which zstd's frames end
/// with.
func checksum(_ bytes: UnsafeRawBufferPointer) -> UInt64 { xxh64(bytes.baseAddress, bytes.count) }

/// Numbers of 8 bytes, little end first, and counted bytes.
struct ByteWriter {
  private(set) var bytes: [UInt8] = []

  mutating func put(_ number: UInt64) {
    for shift in stride(from: 0, to: 64, by: 8) { bytes.append(UInt8(truncatingIfNeeded: number >> shift)) }
  }

  mutating func put(_ counted: [UInt8]) {
    put(UInt64(counted.count))
    bytes += counted
  }
}

/// The way back; `nil` where there is no more.
struct ByteReader {
  private(set) var rest: ArraySlice<UInt8>
  init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

  mutating func number() -> UInt64? {
    guard rest.count >= 8 else { return nil }
    defer { rest = rest.dropFirst(8) }
    return rest.prefix(8).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  mutating func bytes(_ count: UInt64) -> [UInt8]? {
    guard count <= UInt64(rest.count) else { return nil }
    defer { rest = rest.dropFirst(Int(count)) }
    return Array(rest.prefix(Int(count)))
  }
}
