/// What a contender's server is started with.
struct ServerSetup: Codable, Sendable {
  /// The contender's name.
  var contender: String
  /// The documents, and an index of them to begin with.
  var source: String
  var segments: [String]
  /// For what the server writes.
  var folder: String
  var address: ServeAddress
  /// CPUs that the process may use.
  var cores: Int
  /// For blocks in memory.
  var cacheBytes: Int
  var hasBackground: Bool
  /// How queries read the index.
  var files = FileAccess.direct

  /// So many index and merge, one more checks.
  var indexers: Int { cores }
}

extension SearchEngine {
  /// As every contender starts it, with its own ways to read, to wait, and to keep what both sides use.
  convenience init(
    _ setup: ServerSetup, disk: any Disk = PlainDisk(), runtime: any EngineRuntime = PlainRuntime(),
    cache: (any BlockMemory)? = nil, popularity: any Popularity = PlainPopularity(),
    standing: @escaping @Sendable () async -> SchedulerStanding? = { nil }
  ) async throws {
    try await self.init(
      source: setup.source, folder: setup.folder, segments: setup.segments, disk: disk, files: setup.files,
      runtime: runtime, cache: cache ?? LRUBlockMemory(bytes: setup.cacheBytes), popularity: popularity,
      standing: standing)
  }
}
