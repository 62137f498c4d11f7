/// Files as a contender reads and writes them, without the page cache where the file system allows that.
protocol Disk: Sendable {
  func open(_ path: String, _ mode: DiskMode, for side: Side) async throws -> any DiskFile
}

enum DiskMode: Sendable {
  case reading
  /// Through the page cache.
  case readingCached
  /// A new file.
  case creating
}

/// How queries read the index; background never reads it through the page cache, which it would fill.
enum FileAccess: String, Sendable, Codable, CaseIterable {
  case cached, direct
}

/// An open file; closed with its last reference. Offsets and counts are whole blocks of 4 KiB.
protocol DiskFile: AnyObject, Sendable {
  /// In bytes.
  var size: Int { get async throws }

  /// Reads exactly `count` bytes, for the time of `body`.
  ///
  /// - Throws: ``EngineError`` with code `torn` where the file ends before.
  func read<Value>(
    _ count: Int, at offset: Int, for side: Side, _ body: (UnsafeRawBufferPointer) throws -> Value
  ) async throws -> Value

  /// Writes `count` bytes, which `fill` puts in.
  func write(
    _ count: Int, at offset: Int, for side: Side, _ fill: (UnsafeMutableRawBufferPointer) -> Void
  ) async throws

  /// Returns once the device has all that was written.
  func synchronize(for side: Side) async throws
}

enum DiskBlock {
  static let size = 4096

  static func roundUp(_ bytes: Int) -> Int { (bytes + size - 1) / size * size }
}
