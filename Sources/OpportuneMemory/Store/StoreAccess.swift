import Glibc

/// How a store's file is read and written: so that who knows of an I/O broker can have it done there.
/// Opening, locking and setting aside is the store's. Any thread.
///
/// Answers are those of `pread`, `pwrite`, `fdatasync` and `fsync`, but `-errno` where these fail.
package protocol StoreAccess: Sendable {
  func read(_ file: Int32, _ bytes: UnsafeMutableRawBufferPointer, at offset: Int) -> Int
  func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int
  func synchronise(_ file: Int32) -> Int
  /// The same with all that is known of a file, or of a folder: before anything is written.
  func synchroniseAll(_ file: Int32) -> Int
}

extension StoreAccess {
  package func synchroniseAll(_ file: Int32) -> Int { fsync(file) == 0 ? 0 : -Int(errno) }
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
}
