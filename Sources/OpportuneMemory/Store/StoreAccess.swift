internal import COpportune
import Glibc

/// How a store's file is read and written: so that who knows of an I/O broker can have it done there. Opening, locking and
/// setting aside is the store's. Any thread.
///
/// Answers are those of `pread`, `pwrite` and `fdatasync`, but `-errno` where these fail.
package protocol StoreAccess: Sendable {
  func read(_ file: Int32, _ bytes: UnsafeMutableRawBufferPointer, at offset: Int) -> Int
  func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int
  func synchronise(_ file: Int32) -> Int
  /// Hints.
  func beginWriting(_ file: Int32, _ range: Range<Int>)
  func beginReading(_ file: Int32, _ range: Range<Int>)
}

extension StoreAccess {
  package func beginWriting(_ file: Int32, _ range: Range<Int>) {}
  package func beginReading(_ file: Int32, _ range: Range<Int>) {}
}

/// System calls of the thread that asks.
struct PlainAccess: StoreAccess {
  func read(_ file: Int32, _ bytes: UnsafeMutableRawBufferPointer, at offset: Int) -> Int {
    let count = pread(file, bytes.baseAddress, bytes.count, off_t(offset))
    return count < 0 ? -Int(errno) : count
  }

  func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
    let count = pwrite(file, bytes.baseAddress, bytes.count, off_t(offset))
    return count < 0 ? -Int(errno) : count
  }

  func synchronise(_ file: Int32) -> Int { fdatasync(file) == 0 ? 0 : -Int(errno) }

  /// The disk writes while the next blocks are looked at.
  func beginWriting(_ file: Int32, _ range: Range<Int>) {
    opp_store_begin_writing(file, Int64(range.lowerBound), Int64(range.count))
  }

  /// The kernel reads ahead all of it, not as much as it does for anybody.
  func beginReading(_ file: Int32, _ range: Range<Int>) {
    posix_fadvise(file, off_t(range.lowerBound), off_t(range.count), POSIX_FADV_WILLNEED)
  }
}
