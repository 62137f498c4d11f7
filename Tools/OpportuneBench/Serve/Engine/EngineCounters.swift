/// What the engine has done since it was started, in the order in which it goes to the client.
struct EngineCount: Equatable, Sendable {
  /// `CLOCK_MONOTONIC` as the counters were read, in nanoseconds.
  var time: UInt64 = 0
  var documents: UInt64 = 0
  var indexedBytes: UInt64 = 0
  var merges: UInt64 = 0
  var mergedBytes: UInt64 = 0
  var checkedBytes: UInt64 = 0
  /// Whole indexes that took the place of the one before.
  var indexes: UInt64 = 0
  var refused: UInt64 = 0
  var cacheHits: UInt64 = 0
  var cacheMisses: UInt64 = 0
  var cacheWaits: UInt64 = 0
  /// Background work that failed.
  var failures: UInt64 = 0
  /// Nanoseconds of CPU of the engine's background code, on whatever threads; and what it read and wrote.
  var backgroundCPU: UInt64 = 0
  var backgroundRead: UInt64 = 0
  var backgroundWritten: UInt64 = 0

  private static let fields: [WritableKeyPath<EngineCount, UInt64> & Sendable] = [
    \.time, \.documents, \.indexedBytes, \.merges, \.mergedBytes, \.checkedBytes, \.indexes, \.refused,
    \.cacheHits, \.cacheMisses, \.cacheWaits, \.failures,
    \.backgroundCPU, \.backgroundRead, \.backgroundWritten,
  ]

  static let size = fields.count

  init() {}

  var encoded: [UInt64] { Self.fields.map { self[keyPath: $0] } }

  init?(_ counters: [UInt64]) {
    guard counters.count == Self.fields.count else { return nil }
    for (field, value) in zip(Self.fields, counters) { self[keyPath: field] = value }
  }

  /// From `before` to this; the time as well.
  func since(_ before: EngineCount) -> EngineCount {
    var difference = EngineCount()
    for field in Self.fields { difference[keyPath: field] = self[keyPath: field] &- before[keyPath: field] }
    return difference
  }
}
