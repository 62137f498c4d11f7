import Glibc
import OpportuneMemory

/// A disk that may lose, in a crash, any sectors that were written since the last synchronisation.
package final class CrashDisk: StoreDevice {
  package static let sector = 512
  /// What is read back.
  package var seen: [UInt8]
  package var synchronises = true
  /// This call of `synchronise` since `begin` does nothing.
  package var missing: Int?
  private var synchronised = 0
  /// So many calls that change something succeed; the next one, and all after it, do not.
  package var failsAfter: Int?
  private var start: [UInt8] = []
  /// Since `begin`: a write, or `nil` for a synchronisation.
  private var log: [(at: Int, bytes: [UInt8])?] = []

  package init(size: Int) { seen = [UInt8](repeating: 0, count: size) }
  package init(_ image: [UInt8]) { seen = image }

  package var size: Int { seen.count }

  package func read(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(StoreError) {
    bytes.copyBytes(from: seen[offset..<offset + bytes.count])
  }

  private func mayFail() throws(StoreError) {
    guard let left = failsAfter else { return }
    guard left > 0 else { throw StoreError(.system(EIO), "the disk fails") }
    failsAfter = left - 1
  }

  package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(StoreError) {
    try mayFail()
    log.append((offset, [UInt8](bytes)))
    seen.replaceSubrange(offset..<offset + bytes.count, with: bytes)
  }

  package func synchronise() throws(StoreError) {
    try mayFail()
    if synchronises, synchronised != missing { log.append(nil) }
    synchronised += 1
  }

  /// What was written and not synchronised stays in danger.
  package func begin() {
    synchronised = 0
    if let last = log.lastIndex(where: { $0 == nil }) {
      for case (let at, let bytes)? in log[..<last] {
        start.replaceSubrange(at..<at + bytes.count, with: bytes)
      }
      log.removeSubrange(...last)
    }
  }

  /// All is on the disk.
  package func sync() {
    start = seen
    log = []
  }

  /// The images of each point.
  package static let tries = 4

  /// What a crash may leave, at each point of the log.
  package func crashImages(using generator: inout some RandomNumberGenerator) -> [[UInt8]] {
    var images: [[UInt8]] = []
    for point in 0...log.count {
      for _ in 0..<Self.tries { images.append(crashImage(at: point, using: &generator)) }
    }
    return images
  }

  /// Writes and synchronisations that may be lost in part.
  package var logCount: Int { log.count }

  /// What a crash may leave after so many entries of the log: all that was synchronised, and any part, by
  /// sectors, of the rest.
  package func crashImage(at point: Int, using generator: inout some RandomNumberGenerator) -> [UInt8] {
    var image = start
    let safe = log[..<point].lastIndex { $0 == nil } ?? 0
    for write in log[..<safe].compactMap({ $0 }) {
      image.replaceSubrange(write.at..<write.at + write.bytes.count, with: write.bytes)
    }
    for write in log[safe..<point].compactMap({ $0 }) {
      var at = write.at
      while at < write.at + write.bytes.count {
        let end = min((at / Self.sector + 1) * Self.sector, write.at + write.bytes.count)
        if Bool.random(using: &generator) {
          image.replaceSubrange(at..<end, with: write.bytes[at - write.at..<end - write.at])
        }
        at = end
      }
    }
    return image
  }
}
