/// A contender's files, with what background reads and writes counted in its account.
struct CountedDisk: Disk {
  let disk: any Disk
  let background: WorkAccount

  func open(_ path: String, _ mode: DiskMode, for side: Side) async throws -> any DiskFile {
    let file = try await account(side).wait { try await disk.open(path, mode, for: side) }
    return CountedFile(file, self)
  }

  fileprivate func account(_ side: Side) -> WorkAccount? { side == .background ? background : nil }
}

private final class CountedFile: DiskFile {
  private let file: any DiskFile
  private let disk: CountedDisk

  init(_ file: any DiskFile, _ disk: CountedDisk) {
    self.file = file
    self.disk = disk
  }

  var size: Int { get async throws { try await file.size } }

  func read<Value>(
    _ count: Int, at offset: Int, for side: Side, _ body: (UnsafeRawBufferPointer) throws -> Value
  ) async throws -> Value {
    let account = disk.account(side)
    account?.end()
    return try await file.read(count, at: offset, for: side) { bytes in
      // Whoever asked runs again, where it is to run.
      account?.begin()
      account?.hasRead(bytes.count)
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
}
