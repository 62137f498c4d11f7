internal import COpportune
import Glibc
internal import OpportuneBase
import SystemPackage

/// Files. Every call throws ``IOError``. All calls but ``close(_:)`` take a time `limit` from now on; `nil`
/// is none. ``AppIO`` says how calls end. Descriptors are those of swift-system; close them with
/// ``close(_:)``, through the reactor.
extension AppIO {
  /// Opens a file, always close-on-exec.
  ///
  /// The open of a FIFO waits until its other end is opened. It delays only other such opens: at most eight
  /// of each class wait at the same time. The call ends at its deadline and on cancellation. Without
  /// io_uring, the open then keeps its place among the eight until the other end is opened, and the resulting
  /// descriptor is closed. With `options: .nonBlocking` no open waits.
  public func open(
    _ path: FilePath, _ mode: FileDescriptor.AccessMode, options: FileDescriptor.OpenOptions = [],
    permissions: FilePermissions = [.ownerReadWrite, .groupRead, .otherRead], within limit: Duration? = nil
  ) async throws(IOError) -> FileDescriptor {
    var call = call(.OPP_RING_OPEN)
    call.op.fd = AT_FDCWD
    call.op.address = call.copy(path)
    call.subject = .path(path)
    call.op.flags = UInt32(bitPattern: mode.rawValue | options.rawValue | O_CLOEXEC)
    call.op.length = UInt32(permissions.rawValue)
    return FileDescriptor(rawValue: Int32(try await perform(call, within: limit)))
  }

  /// Closes a descriptor.
  ///
  /// All other requests that are queued or in flight on it, of any app, are cancelled with the error
  /// `canceled`. The call returns when the kernel has ended them, since the number may belong to another file
  /// afterwards. Cancelling the task has no effect. The call does not wait for a socket's `SO_LINGER` time:
  /// the kernel continues to send after the close.
  public func close(_ descriptor: FileDescriptor) async throws(IOError) {
    try await perform(call(.OPP_RING_CLOSE, .none, descriptor), within: nil)
  }

  /// Reads into a buffer.
  ///
  /// - Parameters:
  ///   - range: the range in the buffer; `nil` is all of it.
  ///   - offset: the offset in the file, in bytes; `nil` is the descriptor's own position, which pipes and
  ///     terminals need.
  ///   - untilFull: whether to continue until the range is full or the file ends.
  /// - Returns: the number of bytes; 0 at the end of the file.
  public func read(
    _ descriptor: FileDescriptor, into buffer: IOBuffer, _ range: Range<Int>? = nil, at offset: Int64? = nil,
    untilFull: Bool = false, within limit: Duration? = nil
  ) async throws(IOError) -> Int {
    var call = try transfer(.OPP_RING_READ, descriptor, buffer, range, offset)
    call.wantsAll = untilFull
    return try await perform(call, within: limit)
  }

  /// Writes all of a range of a buffer.
  ///
  /// - Parameters: as in ``read(_:into:_:at:untilFull:within:)``.
  /// - Returns: the length of the range. After an error or a cancellation, part of it may have been written.
  @discardableResult
  public func write(
    _ descriptor: FileDescriptor, from buffer: IOBuffer, _ range: Range<Int>? = nil, at offset: Int64? = nil,
    within limit: Duration? = nil
  ) async throws(IOError) -> Int {
    var call = try transfer(.OPP_RING_WRITE, descriptor, buffer, range, offset)
    call.wantsAll = true
    return try await perform(call, within: limit)
  }

  /// Writes all of the bytes, of which it makes a copy. To write much again and again,
  /// ``write(_:from:_:at:within:)`` copies nothing.
  ///
  /// - Parameters:
  ///   - bytes: at most 2^30.
  ///   - offset: as in ``read(_:into:_:at:untilFull:within:)``.
  /// - Returns: the number of bytes. After an error or a cancellation, part of them may have been written.
  /// - Throws: as ``write(_:from:_:at:within:)``; `configuration` for more than 2^30 bytes.
  @discardableResult
  public func write(
    _ descriptor: FileDescriptor, _ bytes: some Collection<UInt8>, at offset: Int64? = nil,
    within limit: Duration? = nil
  ) async throws(IOError) -> Int {
    try await write(descriptor, from: IOBuffer(copying: bytes), at: offset, within: limit)
  }

  /// Writes a text as UTF-8; otherwise the same as the write of bytes above.
  ///
  /// - Returns: the number of bytes.
  @discardableResult
  public func write(
    _ descriptor: FileDescriptor, _ text: some StringProtocol, at offset: Int64? = nil,
    within limit: Duration? = nil
  ) async throws(IOError) -> Int {
    try await write(descriptor, text.utf8, at: offset, within: limit)
  }

  private func transfer(
    _ code: opp_ring_code, _ descriptor: FileDescriptor, _ buffer: IOBuffer, _ range: Range<Int>?,
    _ offset: Int64?
  ) throws(IOError) -> IOCall {
    if let offset { try require(offset, in: 0...Int64.max, "offset") }
    var call = call(code, .storage, descriptor)
    try call.use(buffer, range)
    call.op.offset = UInt64(offset ?? 0)
    if offset == nil { call.useOwnPosition() }
    return call
  }

  /// Reads into several buffers, one after the other, in one request; 1 to 1024 of them.
  ///
  /// - Returns: the number of bytes, which may be less than the buffers' total size.
  public func read(
    _ descriptor: FileDescriptor, into buffers: [IOBuffer], at offset: Int64? = nil,
    within limit: Duration? = nil
  ) async throws(IOError) -> Int {
    try await perform(vectors(.OPP_RING_READV, descriptor, buffers, offset), within: limit)
  }

  /// Writes several buffers, one after the other, in one request; 1 to 1024 of them.
  ///
  /// - Returns: the number of bytes, which may be less than the buffers' total size.
  @discardableResult
  public func write(
    _ descriptor: FileDescriptor, from buffers: [IOBuffer], at offset: Int64? = nil,
    within limit: Duration? = nil
  ) async throws(IOError) -> Int {
    try await perform(vectors(.OPP_RING_WRITEV, descriptor, buffers, offset), within: limit)
  }

  private func vectors(
    _ code: opp_ring_code, _ descriptor: FileDescriptor, _ buffers: [IOBuffer], _ offset: Int64?
  ) throws(IOError) -> IOCall {
    try require(buffers.count, in: 1...1024, "buffers.count")
    if let offset { try require(offset, in: 0...Int64.max, "offset") }
    var call = call(code, .storage, descriptor)
    try call.use(buffers)
    call.op.offset = UInt64(offset ?? 0)
    if offset == nil { call.useOwnPosition() }
    return call
  }

  /// Waits until the device has stored what was written.
  ///
  /// - Parameter dataOnly: omits metadata that is not needed to read the data back (`fdatasync`).
  public func synchronize(
    _ descriptor: FileDescriptor, dataOnly: Bool = false, within limit: Duration? = nil
  ) async throws(IOError) {
    let code: opp_ring_code = dataOnly ? .OPP_RING_FDATASYNC : .OPP_RING_FSYNC
    try await perform(call(code, .storage, descriptor), within: limit)
  }

  /// Reserves space, so that writes to that range do not fail for lack of space; extends the file if needed.
  public func allocate(
    _ descriptor: FileDescriptor, at offset: Int64 = 0, count: Int64, within limit: Duration? = nil
  ) async throws(IOError) {
    try require(offset, in: 0...Int64.max, "offset")
    try require(count, in: 1...Int64.max, "count")
    var call = call(.OPP_RING_ALLOCATE, .storage, descriptor)
    call.op.offset = UInt64(offset)
    call.op.second = UInt64(count)
    try await perform(call, within: limit)
  }

  /// Before what the ring does not do: has a no-op in the place of `turn` take its turn in the queue, where a
  /// suspended app waits.
  ///
  /// - Parameter closes: of the whole call. The turn fails if the descriptor was closed since that began.
  /// - Returns: what detects a close since the turn began, from then on; see `doInline`.
  func take(
    _ turn: IOCall, since closes: UInt64, until end: ContinuousClock.Instant?
  ) async throws(IOError) -> UInt64 {
    var turn = turn
    turn.op.code = UInt8(opp_ring_code.OPP_RING_NOP.rawValue)
    let closesSince = turn.closesBefore
    turn.closesBefore = closes
    try await perform(turn, within: end.map { $0 - .now })
    return closesSince
  }

  /// Sets the size of the file, by cutting it off or appending zeroes.
  public func truncate(
    _ descriptor: FileDescriptor, to count: Int64, within limit: Duration? = nil
  ) async throws(IOError) {
    try require(count, in: 0...Int64.max, "count")
    var call = call(.OPP_RING_TRUNCATE, .storage, descriptor)
    call.op.offset = UInt64(count)
    guard !reactor.capabilities.truncate else {
      try await perform(call, within: limit)
      return
    }
    // The ring has no truncate before Linux 6.9. So the calling thread does it, which rarely blocks.
    try await takeTurns(call, self.call(.OPP_RING_TRUNCATE, .storage, descriptor), limit) { closes, _ in
      doInline(on: .storage, descriptor.rawValue, since: closes, unlessSuspended: true) {
        ftruncate(descriptor.rawValue, off_t(count)) == 0 ? 0 : errno
      }
    }
  }

  /// Takes the call's turn in the queue, and calls `body` then; again where the app is suspended right after
  /// its turn, or a signal came between.
  ///
  /// - Parameters:
  ///   - turn: what waits in the queue, a new one each time.
  ///   - body: gets the closes as of the turn, and the end of the time limit. Returns 0 or an error number;
  ///     nil where the app may not do it now.
  private func takeTurns(
    _ call: IOCall, _ turn: @autoclosure () -> IOCall, _ limit: Duration?,
    _ body: (UInt64, ContinuousClock.Instant?) async throws(IOError) -> Int32?
  ) async throws(IOError) {
    let end = limit.map { ContinuousClock.now + $0 }
    while true {
      let closes = try await take(turn(), since: call.closesBefore, until: end)
      let error = try await body(closes, end)
      if error == 0 { return }
      if let error, error != EINTR { throw call.error(.system(Errno(rawValue: error))) }
    }
  }

  /// Makes a folder, in one that is there already.
  ///
  /// - Parameter permissions: the folder's, less those that the process's `umask` takes.
  /// - Throws: ``IOError``: `system` with `fileExists` where something of that name is there, also a folder,
  ///   with `noSuchFileOrDirectory` where the folder above is not.
  public func makeFolder(
    _ path: FilePath,
    permissions: FilePermissions = [.ownerReadWriteExecute, .groupReadExecute, .otherReadExecute],
    within limit: Duration? = nil
  ) async throws(IOError) {
    var call = call(.OPP_RING_MAKE_FOLDER)
    call.subject = .path(path)
    guard reactor.capabilities.make_folder else {
      return try await makeFolderElsewhere(call, path, permissions, limit)
    }
    call.op.fd = AT_FDCWD
    call.op.address = call.copy(path)
    call.op.length = UInt32(permissions.rawValue)
    try await perform(call, within: limit)
  }

  /// The ring makes no folders before Linux 5.15. So a thread that may wait does.
  private func makeFolderElsewhere(
    _ call: IOCall, _ path: FilePath, _ permissions: FilePermissions, _ limit: Duration?
  ) async throws(IOError) {
    func turn() -> IOCall {
      var turn = self.call(.OPP_RING_MAKE_FOLDER)
      turn.subject = .path(path)
      return turn
    }
    try await takeTurns(call, turn(), limit) { closes, end throws(IOError) in
      do throws(IOError) {
        return try await elsewhere(on: .storage, within: end.map { $0 - .now }) { [self] in
          doInline(on: .storage, -1, since: closes, unlessSuspended: true) {
            path.withPlatformString { mkdir($0, permissions.rawValue) } == 0 ? 0 : errno
          }
        }
      } catch {
        throw call.error(error.code)
      }
    }
  }

  /// Renames a file. An existing `new` is replaced atomically.
  public func rename(_ old: FilePath, to new: FilePath, within limit: Duration? = nil) async throws(IOError) {
    var call = call(.OPP_RING_RENAME)
    call.op.fd = AT_FDCWD
    call.op.index = AT_FDCWD
    call.op.address = call.copy(old)
    call.op.second = call.copy(new)
    call.subject = .paths(old, new)
    try await perform(call, within: limit)
  }

  /// Removes a file.
  public func remove(_ path: FilePath, within limit: Duration? = nil) async throws(IOError) {
    try await remove(path, 0, limit)
  }

  /// Removes an empty folder.
  public func removeFolder(_ path: FilePath, within limit: Duration? = nil) async throws(IOError) {
    try await remove(path, UInt32(AT_REMOVEDIR), limit)
  }

  private func remove(_ path: FilePath, _ flags: UInt32, _ limit: Duration?) async throws(IOError) {
    var call = call(.OPP_RING_UNLINK)
    call.op.fd = AT_FDCWD
    call.op.address = call.copy(path)
    call.subject = .path(path)
    call.op.flags = flags
    try await perform(call, within: limit)
  }

  /// `AT_EMPTY_PATH`, which Glibc's module does not have.
  private static let emptyPath: Int32 = 0x1000

  /// The status of the file at a path, like `stat`.
  public func status(_ path: FilePath, within limit: Duration? = nil) async throws(IOError) -> FileStatus {
    try await status(AT_FDCWD, path, 0, limit)
  }

  /// The status of an open file, like `fstat`.
  public func status(_ descriptor: FileDescriptor, within limit: Duration? = nil) async throws(IOError)
    -> FileStatus
  {
    try await status(descriptor.rawValue, "", Self.emptyPath, limit)
  }

  private func status(
    _ descriptor: Int32, _ path: FilePath, _ flags: Int32, _ limit: Duration?
  ) async throws(IOError) -> FileStatus {
    var call = call(.OPP_RING_STAT, .storage, FileDescriptor(rawValue: descriptor))
    call.op.address = call.copy(path)
    if !path.isEmpty { call.subject = .path(path) }
    call.op.flags = UInt32(bitPattern: flags)
    call.op.length = FileStatus.wanted
    let memory = call.allocate(FileStatus.count)
    call.op.second = UInt64(UInt(bitPattern: memory))
    try await perform(call, within: limit)
    return withExtendedLifetime(call) { FileStatus(memory) }
  }
}

extension FileDescriptor.OpenOptions {
  /// Bypasses the page cache (`O_DIRECT`): buffers, offsets and counts must then be multiples of the device's
  /// block size.
  public static let direct = FileDescriptor.OpenOptions(rawValue: opp_open_direct())
}

/// The status of a file, as from `stat`.
public struct FileStatus: Sendable, Hashable {
  /// The size in bytes.
  public let size: Int64
  /// Bytes allocated on the device.
  public let allocated: Int64
  /// Type and permissions, like `st_mode`.
  public let mode: UInt32
  /// The permissions to read, write and execute.
  public let permissions: FilePermissions
  /// The time of the last modification since 1970, in nanoseconds; clamped to the years 1677 to 2262.
  public let modified: Int64

  /// Whether it is a folder.
  public var isFolder: Bool { mode & UInt32(S_IFMT) == UInt32(S_IFDIR) }
  /// Whether it is a regular file.
  public var isRegularFile: Bool { mode & UInt32(S_IFMT) == UInt32(S_IFREG) }

  /// `STATX_BASIC_STATS`. The offsets in `struct statx` are kernel ABI; Glibc's module exports neither them
  /// nor the struct.
  static let wanted: UInt32 = 0x7ff
  static let count = 256

  init(_ about: UnsafeRawPointer) {
    size = Int64(clamping: about.load(fromByteOffset: 40, as: UInt64.self))
    allocated =
      Int64(clamping: about.load(fromByteOffset: 48, as: UInt64.self)).multipliedReportingOverflow(by: 512)
      .partialValue
    mode = UInt32(about.load(fromByteOffset: 28, as: UInt16.self))
    permissions = FilePermissions(rawValue: CModeT(mode & 0o7777))
    modified = Self.nanoseconds(
      about.load(fromByteOffset: 112, as: Int64.self), about.load(fromByteOffset: 120, as: UInt32.self))
  }

  /// The kind of the file, as an `opp_file_kind()` value.
  static func kind(_ about: UnsafeRawPointer) -> Int32 {
    let isOnNoDevice = about.load(fromByteOffset: 136, as: UInt32.self) == 0
    return Int32(FileStatus(about).mode) | (isOnNoDevice ? OPP_FILE_ON_NO_DEVICE : 0)
  }

  private static func nanoseconds(_ seconds: Int64, _ rest: UInt32) -> Int64 {
    (Duration.seconds(seconds) + .nanoseconds(Int64(rest))).clampedNanoseconds
  }
}
