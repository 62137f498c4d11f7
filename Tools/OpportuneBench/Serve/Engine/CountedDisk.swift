/// A contender's files, with what background and requests read and write counted in their accounts, and
/// queries reading as ``files`` has it.
struct CountedDisk: Disk {
  let disk: any Disk
  let background: WorkAccount
  var files = FileAccess.direct

  func open(_ path: String, _ mode: DiskMode, for side: Side) async throws -> any DiskFile {
    let file = try await account(side).wait { try await disk.open(path, mode, for: side) }
    guard mode == .reading, files == .cached else { return CountedFile(file, file, self) }
    let cached = try await account(side).wait { try await disk.open(path, .readingCached, for: side) }
    return CountedFile(file, cached, self)
  }

  fileprivate func account(_ side: Side) -> WorkAccount? {
    side == .background ? background : WorkAccount.ofRequest
  }
}

private final class CountedFile: DiskFile {
  private let file: any DiskFile
  /// What queries read: the same, or the same file opened for the page cache.
  private let asked: any DiskFile
  private let disk: CountedDisk

  init(_ file: any DiskFile, _ asked: any DiskFile, _ disk: CountedDisk) {
    self.file = file
    self.asked = asked
    self.disk = disk
  }

  var size: Int { get async throws { try await file.size } }

  func read<Value>(
    _ count: Int, at offset: Int, for side: Side, _ body: (UnsafeRawBufferPointer) throws -> Value
  ) async throws -> Value {
    let account = disk.account(side)
    account?.end()
    let begin = monotonicNow()
    let read = side == .foreground ? asked : file
    return try await read.read(count, at: offset, for: side) { bytes in
      // Whoever asked runs again, where it is to run.
      account?.hasRead(bytes.count, in: monotonicNow() &- begin)
      account?.begin()
      return try body(bytes)
    }
  }

  func write(
    _ count: Int, at offset: Int, for side: Side, _ fill: (UnsafeMutableRawBufferPointer) -> Void
  ) async throws {
    let account = disk.account(side)
    try await account.wait {
      try await file.write(count, at: offset, for: side) { bytes in
        account?.begin()
        fill(bytes)
        account?.end()
      }
    }
    account?.hasWritten(count)
  }

  func synchronize(for side: Side) async throws {
    try await disk.account(side).wait { try await file.synchronize(for: side) }
  }
}

extension WorkAccount? {
  /// Where nothing is counted, just waits.
  func wait<Value>(_ body: () async throws -> Value) async rethrows -> Value {
    guard let self else { return try await body() }
    return try await self.wait(body)
  }

  func waitForOthers<Value>(_ body: () async throws -> Value) async rethrows -> Value {
    guard let self else { return try await body() }
    return try await self.waitForOthers(body)
  }
}
