import Glibc

/// How a store's file is read and written; an implementation may use an I/O broker. Opening, locking and
/// allocating is done by the store. Any thread.
///
/// The results are those of `pread`, `pwrite`, `fdatasync` and `fsync`; `-errno` on failure.
package protocol StoreAccess: Sendable {
  func read(_ file: Int32, _ bytes: UnsafeMutableRawBufferPointer, at offset: Int) -> Int
  func write(_ file: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int
  func synchronise(_ file: Int32) -> Int
  /// Like `synchronise`, with all metadata of a file or a folder. Called before anything is written.
  func synchroniseAll(_ file: Int32) -> Int
}

extension StoreAccess {
  package func synchroniseAll(_ file: Int32) -> Int { fsync(file) == 0 ? 0 : -Int(errno) }
}

/// Plain system calls on the calling thread.
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
