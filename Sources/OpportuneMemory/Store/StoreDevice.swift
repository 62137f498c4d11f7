internal import COpportune
import Glibc
internal import OpportuneBase

/// A disk as the store uses it. Tests substitute one that loses what was not synchronised.
package protocol StoreDevice: AnyObject {
  /// The size in bytes.
  var size: Int { get }
  /// Reads all of it, or throws. Any thread.
  func read(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(StoreError)
  func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(StoreError)
  /// Returns when everything written before is on the disk.
  func synchronise() throws(StoreError)
  /// Hints: the disk may begin to write that range, or to read it ahead.
  func beginWriting(_ range: Range<Int>)
  func beginReading(_ range: Range<Int>)
}

extension StoreDevice {
  package func beginWriting(_ range: Range<Int>) {}
  package func beginReading(_ range: Range<Int>) {}
}

/// A file of fixed size, whose blocks are allocated when it is opened, and which is locked while it is open.
final class StoreFile: StoreDevice {
  private let descriptor: Int32
  private let path: String
  let size: Int
  /// Who opened it: the lock is of the open file, which a child of fork() has as well.
  private let process = getpid()
  /// Set before another thread uses the store.
  var access: any StoreAccess

  init(_ path: String, size: Int, access: any StoreAccess) throws(StoreError) {
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw Self.refused("'\(path)' was not opened") }
    do throws(StoreError) {
      guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
        if errno == EWOULDBLOCK { throw StoreError(.locked, "'\(path)' is in use by another store") }
        throw Self.refused("'\(path)' was not locked")
      }
      var status = stat()
      guard fstat(descriptor, &status) == 0 else { throw Self.refused("'\(path)' has no size") }
      // The file is new, or a crash came before it was allocated: no index is written before that.
      let isWhole = status.st_size == size
      if !isWhole {
        guard status.st_size < size, try Self.isBlank(descriptor, status.st_size, path) else {
          throw StoreError(.otherSize, "'\(path)' has \(status.st_size) bytes, expected \(size)")
        }
      }
      // A file of this size may have holes, like a copy. Existing content is kept.
      var result: Int32
      repeat { result = posix_fallocate(descriptor, 0, size) } while result == EINTR
      guard result == 0 else {
        // A part may have been allocated.
        if !isWhole { ftruncate(descriptor, status.st_size) }
        throw Self.refused("no \(size) bytes were set aside in '\(path)'", result)
      }
      // Its blocks and its name are on the disk before anything is saved, even if a crash interrupted an
      // earlier opening.
      try Self.succeeded(access.synchroniseAll(descriptor), path)
      try Self.synchroniseFolder(of: path, access)
    } catch {
      close(descriptor)
      throw error
    }
    self.descriptor = descriptor
    self.path = path
    self.size = size
    self.access = access
  }

  deinit { close(descriptor) }

  /// Whether the existing part of the two index copies was never written.
  private static func isBlank(_ descriptor: Int32, _ size: Int, _ path: String) throws(StoreError) -> Bool {
    let count = min(size, StoreIndex.dataOffset)
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(count, 1), alignment: 16)
    defer { buffer.deallocate() }
    try whole(count, "read", path) { done in
      PlainAccess().read(descriptor, UnsafeMutableRawBufferPointer(rebasing: buffer[done..<count]), at: done)
    }
    return buffer[..<count].allSatisfy { $0 == 0 }
  }

  private static func synchroniseFolder(of path: String, _ access: any StoreAccess) throws(StoreError) {
    let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
    let descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    guard descriptor >= 0 else { throw refused("'\(folder)' was not opened") }
    defer { close(descriptor) }
    try succeeded(access.synchroniseAll(descriptor), folder)
  }

  private static func succeeded(_ synchronisation: Int, _ path: String) throws(StoreError) {
    guard synchronisation >= 0 else {
      throw refused("'\(path)' was not synchronised", Int32(clamping: -synchronisation))
    }
  }

  private static func refused(_ what: String, _ number: Int32 = errno) -> StoreError {
    StoreError(.system(number), "\(what): \(errorText(number))")
  }

  func read(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(StoreError) {
    try Self.whole(bytes.count, "read", path) { done in
      access.read(descriptor, UnsafeMutableRawBufferPointer(rebasing: bytes[done...]), at: offset + done)
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(StoreError) {
    guard process == getpid() else {
      throw StoreError(.locked, "the store was opened before fork(), and is the parent's")
    }
    try Self.whole(bytes.count, "written", path) { done in
      access.write(descriptor, UnsafeRawBufferPointer(rebasing: bytes[done...]), at: offset + done)
    }
  }

  private static func whole(
    _ count: Int, _ what: String, _ path: String, _ some: (Int) -> Int
  ) throws(StoreError) {
    var done = 0
    while done < count {
      let step = some(done)
      if step == -Int(EINTR) { continue }
      guard step >= 0 else { throw refused("'\(path)' was not \(what)", Int32(clamping: -step)) }
      guard step > 0 else { throw StoreError(.otherSize, "'\(path)' ends after \(done) of \(count) bytes") }
      done += step
    }
  }

  func synchronise() throws(StoreError) {
    try Self.succeeded(access.synchronise(descriptor), path)
  }

  // Hints to the kernel, whatever `access` is. They concern only pages in the kernel's cache; without them
  // all would be written at once in the end.

  func beginWriting(_ range: Range<Int>) {
    opp_store_begin_writing(descriptor, Int64(range.lowerBound), Int64(range.count))
  }

  func beginReading(_ range: Range<Int>) {
    posix_fadvise(descriptor, off_t(range.lowerBound), off_t(range.count), POSIX_FADV_WILLNEED)
  }
}
