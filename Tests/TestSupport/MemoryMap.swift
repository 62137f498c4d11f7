import Foundation

/// What the kernel says of this process's mappings (`/proc/self/smaps`), read into room that was there before: so that
/// reading it takes no place that is to be looked at.
public final class MemoryMap {
  private let room = UnsafeMutableRawBufferPointer.allocate(byteCount: 16 << 20, alignment: 16)
  private var count = 0

  public init() { _ = room.initializeMemory(as: UInt8.self, repeating: 0) }
  deinit { room.deallocate() }

  public func read() throws {
    let file = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { throw POSIXError(POSIXError.Code(rawValue: errno) ?? .EIO) }
    defer { close(file) }
    count = 0
    while count < room.count {
      let step = Glibc.read(file, room.baseAddress.map { $0 + count }, room.count - count)
      guard step > 0 else { break }
      count += step
    }
  }

  /// Resident bytes of all mappings that have a byte in common with the range, when it was read last.
  public func resident(_ range: Range<UInt>) -> Int {
    var sum = 0
    var isInside = false
    for line in String(decoding: room[..<count], as: UTF8.self).split(separator: "\n") {
      let words = line.split(separator: " ")
      let ends = words[0].split(separator: "-")
      if ends.count == 2, let from = UInt(ends[0], radix: 16), let to = UInt(ends[1], radix: 16) {
        isInside = from < range.upperBound && range.lowerBound < to
      } else if isInside, words[0] == "Rss:" {
        sum += (Int(words[1]) ?? 0) * 1024
      }
    }
    return sum
  }
}
