import Glibc
import SystemPackage

/// Whole files.
extension AppIO {
  /// The contents of a file.
  ///
  /// - Parameters:
  ///   - limit: refused above so many bytes, with `configuration`; 1 GiB by default.
  ///   - time: for each request but the close.
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

  /// Closes what a call that failed had opened. At a deadline the kernel may keep it for ever, and nobody
  /// waits for that.
  fileprivate func close(_ file: FileDescriptor, after error: IOError) async {
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
    // Files of /proc have no size, and any file may grow meanwhile.
    let buffer = try IOBuffer(count: min(max(size, 4095), (1 << 20) - 1) + 1)
    while true {
      let count = try await read(file, into: buffer, at: Int64(bytes.count), untilFull: true, within: time)
      guard bytes.count + count <= limit else { throw tooLong }
      bytes.append(contentsOf: try buffer.bytes(in: 0..<count))
      if count < buffer.count { return bytes }
    }
  }

  /// Writes a file in one step: whoever opens `path` finds the old contents or the new, whole, also after a
  /// crash.
  ///
  /// The new contents go to a file beside it, to the device, and are then renamed.
  ///
  /// - Parameters:
  ///   - path: a symbolic link there is replaced, not what it names.
  ///   - permissions: the new file's, whatever an old one's are.
  ///   - isDurable: whether the call returns only when the device has it all; else a crash may bring the old
  ///     contents back, never a mixture.
  ///   - time: for each request but closes. Where the file system answers nothing until then, a file
  ///     `.opportune-` and a random number may stay beside it, as after a crash.
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
      isOpen = false  // whatever the close answers
      try await close(file)
      try await rename(temporary, to: path, within: time)
    } catch {
      // Whatever happened, also a cancellation: the half-made file must not stay. Not cancellable itself.
      if isOpen { await close(file, after: error) }
      await Task {
        do throws(IOError) {
          try await remove(temporary, within: time)
        } catch {
          // The app does nothing any more.
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

  /// A file in pieces, read as they are asked for, one ahead of none.
  ///
  /// - Parameters:
  ///   - count: bytes of each piece but the last; 1 to 2^30.
  ///   - time: for each request.
  public func chunks(
    of path: FilePath, count: Int = 128 << 10, within time: Duration? = nil
  ) throws(IOError) -> FileChunks {
    try require(count, in: IOBuffer.countRange, "count")
    return FileChunks(io: self, path: path, count: count, time: time)
  }
}

/// The pieces of a file, in order. The file is open from the first piece until the last, an error, or the
/// iterator's end.
public struct FileChunks: AsyncSequence, Sendable {
  public typealias Element = [UInt8]
  public typealias Failure = IOError

  let io: AppIO
  let path: FilePath
  let count: Int
  let time: Duration?

  public func makeAsyncIterator() -> Iterator { Iterator(of: self) }

  /// One reader; not for several tasks at once.
  public final class Iterator: AsyncIteratorProtocol {
    private let chunks: FileChunks
    private var file: FileDescriptor?
    private var offset: Int64 = 0
    private var isAtEnd = false

    init(of chunks: FileChunks) { self.chunks = chunks }

    deinit {
      guard let file else { return }
      // Left before the end. Nobody waits for this.
      Task { [io = chunks.io] in try? await io.close(file) }
    }

    public func next() async throws(IOError) -> [UInt8]? {
      try await next(isolation: nil)
    }

    public func next(isolation actor: isolated (any Actor)?) async throws(IOError) -> [UInt8]? {
      guard !isAtEnd else { return nil }
      let (io, count) = (chunks.io, chunks.count)
      do throws(IOError) {
        let file: FileDescriptor
        if let open = self.file {
          file = open
        } else {
          file = try await io.open(chunks.path, .readOnly, within: chunks.time)
          self.file = file
        }
        let buffer = try IOBuffer(count: count)
        let read = try await io.read(file, into: buffer, at: offset, untilFull: true, within: chunks.time)
        offset += Int64(read)
        if read < count, let file = takeFile() { try await io.close(file) }
        return read > 0 ? try buffer.bytes(in: 0..<read) : nil
      } catch {
        if let file = takeFile() { await io.close(file, after: error) }
        throw error
      }
    }

    private func takeFile() -> FileDescriptor? {
      isAtEnd = true
      defer { file = nil }
      return file
    }
  }
}
