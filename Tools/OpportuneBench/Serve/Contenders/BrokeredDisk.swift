import OpportuneIO
import OpportuneScheduler
import SystemPackage

/// Files through the I/O broker, in the class of the app that asks.
struct BrokeredDisk: Disk {
  let foreground: AppIO
  let background: AppIO
  /// Of the background's I/O.
  let app: App

  func open(_ path: String, _ mode: DiskMode, for side: Side) async throws -> any DiskFile {
    do throws(IOError) {
      let options: FileDescriptor.OpenOptions = mode == .readingCached ? [] : .direct
      return BrokeredFile(try await descriptor(path, mode, options, for: side), self)
    } catch {
      // Not every file system knows O_DIRECT.
      guard error.code == .system(.invalidArgument) else { throw error }
      return BrokeredFile(try await descriptor(path, mode, [], for: side), self)
    }
  }

  private func descriptor(
    _ path: String, _ mode: DiskMode, _ options: FileDescriptor.OpenOptions, for side: Side
  ) async throws(IOError) -> FileDescriptor {
    try await self[side].open(
      FilePath(path), mode == .creating ? .readWrite : .readOnly,
      options: mode == .creating ? options.union([.create, .exclusiveCreate]) : options,
      permissions: .ownerReadWrite)
  }

  subscript(side: Side) -> AppIO { side == .foreground ? foreground : background }
}

private final class BrokeredFile: DiskFile {
  private let descriptor: FileDescriptor
  private let disk: BrokeredDisk

  init(_ descriptor: FileDescriptor, _ disk: BrokeredDisk) {
    self.descriptor = descriptor
    self.disk = disk
  }

  // Nothing of it is under way: who reads or writes holds it. The number must not come again before the
  // broker knows.
  deinit { disk.app.task { [descriptor, io = disk.background] in try await io.close(descriptor) } }

  var size: Int {
    get async throws { Int(try await disk.background.status(descriptor).size) }
  }

  func read<Value>(
    _ count: Int, at offset: Int, for side: Side, _ body: (UnsafeRawBufferPointer) throws -> Value
  ) async throws -> Value {
    let buffer = try IOBuffer(count: count)
    let got = try await disk[side].read(descriptor, into: buffer, at: Int64(offset), untilFull: true)
    guard got == count else {
      throw EngineError(.torn, "the file ends \(count - got) bytes before the end of a read")
    }
    return try buffer.withBytes { try body(UnsafeRawBufferPointer($0)) }
  }

  func write(
    _ count: Int, at offset: Int, for side: Side, _ fill: (UnsafeMutableRawBufferPointer) -> Void
  ) async throws {
    let buffer = try IOBuffer(count: count)
    try buffer.withBytes(fill)
    try await disk[side].write(descriptor, from: buffer, at: Int64(offset))
  }

  func synchronize(for side: Side) async throws {
    try await disk[side].synchronize(descriptor, dataOnly: true)
  }
}
