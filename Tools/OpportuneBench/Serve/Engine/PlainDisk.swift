import Glibc

/// `O_DIRECT`, which Glibc's headers in Swift do not have.
#if arch(arm64)
  private let direct: Int32 = 0o200_000
#else
  private let direct: Int32 = 0o40_000
#endif

/// `pread` and `pwrite` on the caller's thread, which waits: what programs do that have no broker.
struct PlainDisk: Disk {
  func open(_ path: String, _ mode: DiskMode, for side: Side) async throws -> any DiskFile {
    let flags = O_CLOEXEC | (mode == .creating ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY)
    var descriptor = Glibc.open(path, mode == .readingCached ? flags : flags | direct, 0o600)
    // Not every file system knows O_DIRECT.
    if descriptor < 0, errno == EINVAL { descriptor = Glibc.open(path, flags, 0o600) }
    guard descriptor >= 0 else { throw EngineError.failed("'\(path)' was not opened") }
    return PlainFile(descriptor)
  }
}

private final class PlainFile: DiskFile {
  private let descriptor: Int32

  init(_ descriptor: Int32) { self.descriptor = descriptor }

  deinit { close(descriptor) }

  var size: Int {
    get throws {
      var status = stat()
      guard fstat(descriptor, &status) == 0 else { throw EngineError.failed("no size") }
      return Int(status.st_size)
    }
  }

  func read<Value>(
    _ count: Int, at offset: Int, for side: Side, _ body: (UnsafeRawBufferPointer) throws -> Value
  ) async throws -> Value {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: DiskBlock.size)
    defer { memory.deallocate() }
    try transfer(count, "read") { done in
      pread(descriptor, memory.baseAddress.map { $0 + done }, count - done, off_t(offset + done))
    }
    return try body(UnsafeRawBufferPointer(memory))
  }

  func write(
    _ count: Int, at offset: Int, for side: Side, _ fill: (UnsafeMutableRawBufferPointer) -> Void
  ) async throws {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: DiskBlock.size)
    defer { memory.deallocate() }
    fill(memory)
    try transfer(count, "write") { done in
      pwrite(descriptor, memory.baseAddress.map { $0 + done }, count - done, off_t(offset + done))
    }
  }

  func synchronize(for side: Side) async throws {
    guard fdatasync(descriptor) == 0 else { throw EngineError.failed("synchronize") }
  }

  /// Calls `step` with how far it has come, until all is through.
  private func transfer(_ count: Int, _ what: String, _ step: (Int) -> Int) throws {
    let (done, last) = inPieces(count, step)
    guard last >= 0 else { throw EngineError.failed(what) }
    guard done == count else {
      throw EngineError(.torn, "the file ends \(count - done) bytes before the end of a \(what)")
    }
  }
}
