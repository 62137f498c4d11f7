import Glibc
import SystemPackage

/// Whole files.
extension AppIO {
  /// Reads the contents of a file.
  ///
  /// - Parameters:
  ///   - limit: a file of more bytes is refused, with `configuration`; 1 GiB by default.
  ///   - time: the time limit of each request but the close.
  public func readFile(
    _ path: FilePath, upTo limit: Int = 1 << 30, within time: Duration? = nil
  ) async throws(IOError) -> [UInt8] {
    let file = try await open(path, .readOnly, within: time)
    let bytes: [UInt8]
    do throws(IOError) {
      bytes = try await readAll(file, path, limit, time)
    } catch {
      await close(file, after: error)
      throw error
    }
    try await close(file)
    return bytes
  }

  /// Closes the descriptor of a failed call. After a deadline the kernel may keep the file for ever, so
  /// nothing waits for the close then.
  func close(_ file: FileDescriptor, after error: IOError) async {
    let closing = Task { try? await close(file) }
    if error.code != .deadlineExceeded { await closing.value }
  }

  private func readAll(
    _ file: FileDescriptor, _ path: FilePath, _ limit: Int, _ time: Duration?
  ) async throws(IOError) -> [UInt8] {
    let size = Int(try await status(file, within: time).size)
    let tooLong = IOError(.configuration, "\(path) has more than \(limit) bytes, the limit that was given")
    guard size <= limit else { throw tooLong }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(min(size, 1 << 30))
    // Files of /proc report no size, and any file may grow meanwhile.
    let buffer = try IOBuffer(count: min(max(size, 4095), (1 << 20) - 1) + 1)
    while true {
      let count = try await read(file, into: buffer, at: Int64(bytes.count), untilFull: true, within: time)
      guard bytes.count + count <= limit else { throw tooLong }
      bytes.append(contentsOf: try buffer.bytes(in: 0..<count))
      if count < buffer.count { return bytes }
    }
  }

  /// Writes a file atomically: a reader of `path` finds either the old contents or the new, never a mixture,
  /// also after a crash.
  ///
  /// The new contents are written to a temporary file in the same folder, synchronized to the device, and
  /// renamed.
  ///
  /// - Parameters:
  ///   - path: a symbolic link at this path is replaced, not its target.
  ///   - permissions: the new file's, whatever the old file's were.
  ///   - isDurable: whether the call returns only when the device has stored everything. Otherwise a crash
  ///     may restore the old contents, never a mixture.
  ///   - time: the time limit of each request but closes. If the file system does not answer in time, a
  ///     temporary file with the name `.opportune-` and a random number may remain, as after a crash.
  public func writeFile(
    _ path: FilePath, _ bytes: some Collection<UInt8> & Sendable,
    permissions: FilePermissions = [.ownerReadWrite, .groupRead, .otherRead], isDurable: Bool = true,
    within time: Duration? = nil
  ) async throws(IOError) {
    guard path.lastComponent != nil else {
      throw IOError(.configuration, "\"\(path)\" names no file")
    }
    let folder = path.removingLastComponent()
    let temporary = folder.appending(".opportune-\(UInt64.random(in: 0 ... .max))")
    let file = try await open(
      temporary, .writeOnly, options: [.create, .exclusiveCreate], permissions: permissions, within: time)
    var isOpen = true
    do throws(IOError) {
      if !bytes.isEmpty { try await write(file, from: try IOBuffer(copying: bytes), at: 0, within: time) }
      try await synchronize(file, within: time)
      isOpen = false  // whatever the close returns
      try await close(file)
      try await rename(temporary, to: path, within: time)
    } catch {
      // After any failure, also a cancellation, the temporary file must be removed. This part cannot be
      // cancelled.
      if isOpen { await close(file, after: error) }
      await Task {
        do throws(IOError) {
          try await remove(temporary, within: time)
        } catch {
          // A terminated app performs no more requests.
          if error.code == .terminated { _ = temporary.withPlatformString { unlink($0) } }
        }
      }.value
      throw error
    }
    if isDurable { try await synchronizeFolder(folder.isEmpty ? "." : folder, time) }
  }

  private func synchronizeFolder(_ path: FilePath, _ time: Duration?) async throws(IOError) {
    let folder = try await open(path, .readOnly, options: [.directory], within: time)
    do throws(IOError) {
      try await synchronize(folder, within: time)
    } catch {
      await close(folder, after: error)
      throw error
    }
    try await close(folder)
  }

  /// Reads a file in pieces, each on demand and without read-ahead.
  ///
  /// - Parameters:
  ///   - count: the size of each piece but the last in bytes; 1 to 2^30.
  ///   - time: the time limit of each request.
  public func chunks(
    of path: FilePath, count: Int = 128 << 10, within time: Duration? = nil
  ) throws(IOError) -> FileChunks {
    try require(count, in: IOBuffer.countRange, "count")
    return FileChunks(io: self, path: path, count: count, time: time)
  }
}

/// The pieces of a file, in order. The file is open from the first piece until the last one, an error, or the
/// iterator's end.
public struct FileChunks: AsyncSequence, Sendable {
  public typealias Element = [UInt8]
  public typealias Failure = IOError

  let io: AppIO
  let path: FilePath
  let count: Int
  let time: Duration?

  public func makeAsyncIterator() -> Iterator { Iterator(of: self) }

  /// The iterator; not for several tasks at the same time.
  public final class Iterator: AsyncIteratorProtocol {
    private let chunks: FileChunks
    private let file: IteratedFile
    private var offset: Int64 = 0

    init(of chunks: FileChunks) {
      self.chunks = chunks
      file = IteratedFile(chunks.io, chunks.path, within: chunks.time)
    }

    public func next() async throws(IOError) -> [UInt8]? {
      try await next(isolation: nil)
    }

    public func next(isolation actor: isolated (any Actor)?) async throws(IOError) -> [UInt8]? {
      guard !file.isAtEnd else { return nil }
      let (io, count) = (chunks.io, chunks.count)
      do throws(IOError) {
        let open = try await file.open(isolation: actor)
        let buffer = try IOBuffer(count: count)
        let read = try await io.read(open, into: buffer, at: offset, untilFull: true, within: chunks.time)
        offset += Int64(read)
        if read < count { try await file.close(isolation: actor) }
        return read > 0 ? try buffer.bytes(in: 0..<read) : nil
      } catch {
        await file.close(after: error, isolation: actor)
        throw error
      }
    }
  }
}
