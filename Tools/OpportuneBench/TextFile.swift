import Glibc

/// Small files, such as those of `/proc`.
enum TextFile {
  /// The first `limit` bytes of a file as text, or nil where it cannot be read.
  static func read(_ path: String, limit: Int = 65_536) -> String? {
    guard let bytes = bytes(of: path, from: 0, count: limit) else { return nil }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Up to `count` bytes of a file from `offset` on, or nil where it cannot be read.
  static func bytes(of path: String, from offset: Int, count: Int) -> [UInt8]? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var failed = false
    let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
      while filled < count {
        let got = pread(file, buffer.baseAddress.map { $0 + filled }, count - filled, off_t(offset + filled))
        if got < 0 && errno == EINTR { continue }
        if got < 0 { failed = true }
        if got <= 0 { break }
        filled += got
      }
    }
    return failed ? nil : bytes
  }

  /// Writes a small file of the kernel's; whether it took it, else `errno` says why not.
  @discardableResult
  static func write(_ text: String, to path: String) -> Bool {
    let file = open(path, O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return false }
    let count = Glibc.write(file, text, text.utf8.count)
    let number = errno
    close(file)
    errno = number
    return count == text.utf8.count
  }

  /// Makes a file of this text, or replaces it; whether that was done, else `errno` says why not.
  static func create(_ text: String, at path: String) -> Bool {
    let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard file >= 0 else { return false }
    defer { close(file) }
    var text = text
    return text.withUTF8 { bytes in
      let written = inPieces(bytes.count) { done in
        Glibc.write(file, bytes.baseAddress.map { $0 + done }, bytes.count - done)
      }
      return written.done == bytes.count
    }
  }
}

/// Calls `step`, which reads or writes from where it is told, until all is through; again where a signal
/// interrupted it.
///
/// - Returns: how much is through. If that is not all, `last` says why: 0, the file ended; -1, see `errno`.
func inPieces(_ count: Int, _ step: (Int) -> Int) -> (done: Int, last: Int) {
  var done = 0
  while done < count {
    let moved = step(done)
    if moved < 0, errno == EINTR { continue }
    guard moved > 0 else { return (done, moved) }
    done += moved
  }
  return (done, 0)
}
