import Glibc

/// What the store needs of a disk: so that tests can put one in its place that loses what was not synchronised.
protocol StoreDevice: AnyObject {
  /// In bytes.
  var size: Int { get }
  /// All of it, or an error.
  func read(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(StoreError)
  func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(StoreError)
  /// What was written before is on the disk on return.
  func synchronise() throws(StoreError)
}

/// A file of fixed size whose blocks are set aside when it is made, locked for as long as it is open.
final class StoreFile: StoreDevice {
  private let descriptor: Int32
  private let path: String
  let size: Int

  init(_ path: String, size: Int) throws(StoreError) {
    let descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw Self.refused("'\(path)' was not opened") }
    do throws(StoreError) {
      guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
        if errno == EWOULDBLOCK { throw StoreError(.locked, "'\(path)' is in use by another store") }
        throw Self.refused("'\(path)' was not locked")
      }
      var status = stat()
      guard fstat(descriptor, &status) == 0 else { throw Self.refused("'\(path)' has no size") }
      if status.st_size == 0 {
        let result = posix_fallocate(descriptor, 0, size)
        if result != 0 { errno = result }
        guard result == 0, fsync(descriptor) == 0 else {
          throw Self.refused("no \(size) bytes were set aside in '\(path)'")
        }
      } else if status.st_size != size {
        throw StoreError(.otherSize, "'\(path)' has \(status.st_size) bytes, expected \(size)")
      }
    } catch {
      close(descriptor)
      throw error
    }
    self.descriptor = descriptor
    self.path = path
    self.size = size
  }

  deinit { close(descriptor) }

  private static func refused(_ what: String) -> StoreError {
    StoreError(.system(errno), "\(what): \(String(cString: strerror(errno)))")
  }

  func read(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(StoreError) {
    try whole(bytes.count, "read") { done in
      pread(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset + done))
    }
  }

  func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(StoreError) {
    try whole(bytes.count, "written") { done in
      pwrite(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done, off_t(offset + done))
    }
  }

  private func whole(_ count: Int, _ what: String, _ some: (Int) -> Int) throws(StoreError) {
    var done = 0
    while done < count {
      let step = some(done)
      if step < 0, errno == EINTR { continue }
      guard step >= 0 else { throw Self.refused("'\(path)' was not \(what)") }
      guard step > 0 else { throw StoreError(.otherSize, "'\(path)' ends after \(done) of \(count) bytes") }
      done += step
    }
  }

  func synchronise() throws(StoreError) {
    guard fdatasync(descriptor) == 0 else { throw Self.refused("'\(path)' was not synchronised") }
  }
}
