public import CRocksDB
import Glibc

/// A database of RocksDB.
///
/// All calls block: on a device, on RocksDB's locks, and writes on compaction. Safe to use from any thread,
/// until it is closed.
public final class Database: @unchecked Sendable {
  // Immutable until close(), after which nothing is called, as its documentation demands.
  private var raw: OpaquePointer?
  // RocksDB uses it until the database is closed.
  private let environment: RocksDBEnvironment?

  /// What RocksDB says went wrong.
  public struct Failure: Error, CustomStringConvertible {
    public let description: String
  }

  /// What a database is opened with. The defaults are RocksDB's.
  public struct Options: Sendable {
    public var blockCacheBytes = 8 << 20
    public var writeBufferBytes = 64 << 20
    /// How many flushes and compactions run at once.
    public var backgroundJobs = 2
    /// Bytes a second that background work may write at most, tuned below by RocksDB; nil: any number.
    public var rateLimit: Int?
    /// RocksDB's own threads compact at nice 19 and in the idle I/O class.
    public var lowersBackground = false
    public var readsDirectly = false
    /// No compaction, for the first load.
    public var loads = false

    public init() {}
  }

  /// Opens the database at `path`, or makes it.
  ///
  /// - Parameter environment: where its background work runs; nil: in RocksDB's own threads.
  public init(at path: String, environment: RocksDBEnvironment?, options: Options) throws(Failure) {
    self.environment = environment
    raw = try Self.check { error in
      path.withCString { path in
        let wanted = rocks_options(
          path: path, env: environment?.raw, block_cache_bytes: options.blockCacheBytes,
          write_buffer_bytes: options.writeBufferBytes,
          background_jobs: Int32(clamping: options.backgroundJobs),
          rate_limit: UInt64(options.rateLimit ?? 0), lowers_background: options.lowersBackground,
          direct_reads: options.readsDirectly, loads: options.loads)
        return rocks_open(wanted, error)
      }
    }
  }

  deinit { if raw != nil { try? close() } }

  /// Closes the database: waits for background work that runs, drops what is queued. Call it on a thread that
  /// may block, once no other call is inside and before the environment goes.
  public func close() throws(Failure) {
    guard let open = raw else { return }
    raw = nil
    try Self.check { rocks_close(open, $0) ? true : nil }
  }

  /// Copies the value of `key` to `value`, and returns its count; nil where there is none. Neither is empty.
  public func read(
    _ key: UnsafeRawBufferPointer, into value: UnsafeMutableRawBufferPointer
  ) throws(Failure) -> Int? {
    guard let keyBytes = key.baseAddress, let valueBytes = value.baseAddress else {
      throw Failure(description: "a read without a key or without room for a value")
    }
    let count = try Self.check { error -> Int? in
      let count = rocks_get(opened, keyBytes, key.count, valueBytes, value.count, error)
      return count == -2 ? nil : count
    }
    return count == -1 ? nil : count
  }

  /// Writes pairs as one. All keys are of one size, and all values.
  public func write(
    keys: UnsafeRawBufferPointer, values: UnsafeRawBufferPointer, count: Int
  ) throws(Failure) {
    guard let keyBytes = keys.baseAddress, let valueBytes = values.baseAddress, count > 0,
      keys.count.isMultiple(of: count), values.count.isMultiple(of: count)
    else { throw Failure(description: "a write of \(count) pairs, \(keys.count) and \(values.count) bytes") }
    try Self.check {
      rocks_write(opened, keyBytes, keys.count / count, valueBytes, values.count / count, count, $0)
        ? true : nil
    }
  }

  /// Compacts everything into one sorted run.
  public func compactAll() throws(Failure) { try Self.check { rocks_compact_all(opened, $0) ? true : nil } }

  /// Copies the database by hard links. There must be nothing at `path` yet.
  public func checkpoint(at path: String) throws(Failure) {
    try Self.check { rocks_checkpoint(opened, path, $0) ? true : nil }
  }

  /// What it has done since it was opened.
  public var counts: rocks_counts { rocks_count(opened) }

  private var opened: OpaquePointer {
    guard let raw else { preconditionFailure("a database is used after it was closed") }
    return raw
  }

  @discardableResult
  private static func check<Value>(
    _ body: (UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> Value?
  ) throws(Failure) -> Value {
    var message: UnsafeMutablePointer<CChar>?
    if let value = body(&message) { return value }
    defer { free(message) }
    throw Failure(description: message.map { String(cString: $0) } ?? "RocksDB failed, and does not say why")
  }
}
