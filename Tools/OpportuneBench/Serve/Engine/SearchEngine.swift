import Glibc
import Synchronization

/// The search server less its sockets and threads: the same for all contenders.
///
/// Shared state is what people write: the index behind a `Mutex`, the block cache and the table of documents
/// behind more of them, what is popular in an actor.
final class SearchEngine: Sendable {
  /// Blocks that background checks at a time.
  private static let scrubbed = 16

  private let folder: String
  private let disk: any Disk
  private let runtime: any EngineRuntime
  private let source: DocumentSource
  private let cache: BlockCache
  private let catalogue: Catalogue
  private let documents = DocumentTable()
  private let popularity: any Popularity
  private let standing: @Sendable () async -> SchedulerStanding?
  private let counted = Mutex(EngineCount())
  private let background: WorkAccount
  private let nextFile = Atomic<Int>(0)
  private let nextScrub = Atomic<Int>(0)
  private let isStopping = Atomic<Bool>(false)

  /// - Parameters:
  ///   - folder: for the segments that it makes.
  ///   - segments: paths of the index to begin with; the engine removes those that it replaces.
  ///   - standing: what the server's scheduler says of itself, for the bench.
  init(
    source: String, folder: String, segments: [String], disk: any Disk, files: FileAccess = .direct,
    runtime: any EngineRuntime, cache: any BlockMemory, popularity: any Popularity = PlainPopularity(),
    standing: @escaping @Sendable () async -> SchedulerStanding? = { nil }
  ) async throws {
    let background = WorkAccount()
    let disk = CountedDisk(disk: disk, background: background, files: files)
    self.folder = folder
    self.disk = disk
    self.background = background
    self.runtime = runtime
    self.popularity = popularity
    self.standing = standing
    // Only background reads the documents.
    self.source = try await DocumentSource(
      opening: source, on: CountedDisk(disk: disk.disk, background: background))
    self.cache = BlockCache(memory: cache, runtime: runtime, background: background)
    var files: [SegmentFile] = []
    for path in segments { files.append(try await SegmentFile.open(path, on: disk, for: .background)) }
    catalogue = Catalogue(chunks: self.source.chunks.count, current: files)
  }

  var counters: EngineCount {
    var count = counted.withLock { $0 }
    count.cacheHits = UInt64(cache.hits.load(ordering: .relaxed))
    count.cacheMisses = UInt64(cache.misses.load(ordering: .relaxed))
    count.cacheWaits = UInt64(cache.waits.load(ordering: .relaxed))
    count.backgroundCPU = background.cpu
    count.backgroundRead = background.bytesRead
    count.backgroundWritten = background.bytesWritten
    count.time = monotonicNow()
    return count
  }

  /// Segments that queries read.
  var segments: [SegmentFile] { catalogue.segments }

  // MARK: Foreground

  /// Answers a request; one that cannot be answered is refused.
  func answer(_ request: ServeRequest) async -> ServeResponse {
    let begin = monotonicNow()
    let account = WorkAccount()
    var response = await WorkAccount.$ofRequest.withValue(account) {
      await account.run { await outcome(of: request) }
    }
    response.spent = ServeResponse.Spent(
      begin: begin, end: monotonicNow(), cpu: account.cpu, cpuWait: account.cpuWait, locks: account.locks,
      reading: account.reading, waiting: account.waiting)
    return response
  }

  private func outcome(of request: ServeRequest) async -> ServeResponse {
    do {
      return try await respond(to: request)
    } catch {
      counted.withLock { $0.refused += 1 }
      var response = ServeResponse(id: request.id)
      response.status = .refused
      return response
    }
  }

  private func respond(to request: ServeRequest) async throws -> ServeResponse {
    var response = ServeResponse(id: request.id)
    switch request.kind {
    case .short, .phrase:
      guard let query = Query(request.text), let word = query.words.first else {
        throw EngineError(.malformed, "no words")
      }
      let found = try await find(query.words, in: catalogue.segments)
      response.matches = UInt64(found.matches)
      response.documents = UInt32(found.documents)
      // The last of it, and too little to look at the clock twice more.
      WorkAccount.ofRequest?.end()
      await popularity.note(word)
    case .heavy:
      (response.matches, response.loweredAfter) = try await scan(try Pattern(request.text))
    case .fresh:
      guard let query = Query(request.text), let fresh = catalogue.fresh() else {
        throw EngineError(.malformed, "nothing is being indexed")
      }
      let segment = try await WorkAccount.ofRequest.waitForOthers { try await fresh.segment.value() }
      response.matches = UInt64(try await find(query.words, in: [segment]).matches)
      response.chunk = UInt32(fresh.chunk)
    case .statistics:
      response.counters = ServerStatistics(count: counters, standing: await standing()).encoded
    }
    return response
  }

  /// Where words occur in a row.
  private func find(
    _ words: [[UInt8]], in segments: [SegmentFile]
  ) async throws -> (matches: Int, documents: Int) {
    var best = BestDocuments()
    for segment in segments {
      guard let positions = try await positions(of: words, in: segment) else { continue }
      var index = 0
      var ofOne = 0
      var before = -1
      for position in positions {
        index = segment.document(of: position, from: index)
        if index != before {
          if before >= 0 { best.add(segment.footer.documents[before].id, matches: ofOne) }
          before = index
          ofOne = 0
        }
        ofOne += 1
      }
      if before >= 0 { best.add(segment.footer.documents[before].id, matches: ofOne) }
    }
    // As a result page shows them.
    for document in best.first { _ = documents.facts(of: document.id) }
    return (best.matches, best.documents)
  }

  /// Of the first of the words; nil where one does not occur.
  private func positions(of words: [[UInt8]], in segment: SegmentFile) async throws -> [UInt32]? {
    var entries: [(offset: Int, entry: TermEntry)] = []
    for (offset, word) in words.enumerated() {
      guard let entry = try await segment.entry(of: word, in: cache) else { return nil }
      entries.append((offset, entry))
    }
    // The rarest first: what is left only becomes less.
    entries.sort { $0.entry.count < $1.entry.count }
    var starts: [UInt32]?
    for (offset, entry) in entries {
      let shift = UInt32(offset)
      let positions = try await segment.positions(entry, in: cache)
      guard let before = starts else {
        starts = offset == 0 ? positions : positions.filter { $0 >= shift }.map { $0 - shift }
        continue
      }
      starts = Self.intersection(before, positions, shift: shift)
    }
    return starts
  }

  /// Those of `starts` for which `positions` has the place `shift` behind.
  private static func intersection(_ starts: [UInt32], _ positions: [UInt32], shift: UInt32) -> [UInt32] {
    var found: [UInt32] = []
    var index = 0
    for start in starts {
      while index < positions.count, positions[index] < start + shift { index += 1 }
      guard index < positions.count else { break }
      if positions[index] == start + shift { found.append(start) }
    }
    return found
  }

  /// Lines of the whole text that match, and how soon the thread was lowered.
  private func scan(_ pattern: Pattern) async throws -> (lines: UInt64, loweredAfter: UInt32) {
    let begin = monotonicNow()
    let priority = ThreadPriority.current
    var loweredAfter: UInt32 = 0
    var lines = 0
    for segment in catalogue.segments {
      var counter = LineCounter(pattern)
      var text = PartReader(
        segment, at: segment.layout.text, bytes: segment.layout.textBytes, for: .foreground)
      while try await text.fill(1) {
        text.takeAll { counter.add($0) }
        if loweredAfter == 0, ThreadPriority.current < priority {
          loweredAfter = UInt32(clamping: (monotonicNow() - begin) / 1000)
        }
      }
      lines += counter.count
    }
    return (UInt64(lines), loweredAfter)
  }

  // MARK: Background

  /// Indexes, merges and checks until ``stop()``. A contender calls it as often as it has threads for
  /// background.
  func maintain() async {
    while !isStopping.load(ordering: .relaxed) { await maintainOnce() }
  }

  func stop() { isStopping.store(true, ordering: .relaxed) }

  var isStopped: Bool { isStopping.load(ordering: .relaxed) }

  /// One piece of background work: builds, merges or, where others are at the last of that, checks.
  func maintainOnce() async { await background.run { await maintainPiece() } }

  private func maintainPiece() async {
    do {
      switch catalogue.take() {
      case .build(let chunk): try await build(chunk)
      case .merge(let segments, let level): try await merge(segments, level: level)
      case .nothing:
        guard let replaced = catalogue.publish() else { return try await scrubPiece() }
        counted.withLock { $0.indexes += 1 }
        for segment in replaced { unlink(segment.path) }
      }
    } catch {
      counted.withLock { $0.failures += 1 }
    }
  }

  /// Indexes all chunks once and merges what is to be merged, for an index to begin with.
  func buildAll(while goesOn: @Sendable () -> Bool = { true }) async throws {
    while goesOn() {
      switch catalogue.take() {
      case .build(let chunk): try await build(chunk)
      case .merge(let segments, let level): try await merge(segments, level: level)
      case .nothing:
        guard catalogue.publish() != nil else { throw EngineError(.corrupt, "there is nothing to index") }
        return
      }
    }
  }

  /// Compares some blocks of the index with their checksums.
  func scrubOnce() async throws { try await background.run { try await scrubPiece() } }

  private func scrubPiece() async throws {
    let segments = catalogue.segments
    let turn = nextScrub.add(1, ordering: .relaxed).oldValue
    let pieces = segments.map { ($0.blocks.count + Self.scrubbed - 1) / Self.scrubbed }
    let all = pieces.reduce(0, +)
    guard all > 0 else { return }
    var piece = turn % all
    for (segment, count) in zip(segments, pieces) {
      guard piece >= count else {
        let first = segment.blocks.lowerBound + piece * Self.scrubbed
        let blocks = min(Self.scrubbed, segment.blocks.upperBound - first)
        try await cache.scrub(first, count: blocks, of: segment)
        counted.withLock { $0.checkedBytes += UInt64(blocks * DiskBlock.size) }
        return
      }
      piece -= count
    }
  }

  /// Checks until ``stop()``.
  func scrub() async {
    while !isStopping.load(ordering: .relaxed) {
      do { try await scrubOnce() } catch { counted.withLock { $0.failures += 1 } }
    }
  }

  private func build(_ chunk: Int) async throws {
    do {
      let path = newPath()
      let segment = try await background.wait {
        try await runtime.run(.background) {
          catalogue.isBuilding(chunk, $0)
        } _: { [self] in
          try await background.run { try await index(chunk, to: path) }
        }
      }
      catalogue.hasBuilt(chunk, segment)
      _ = await background.wait { await popularity.age(16) }
    } catch {
      catalogue.hasFailed(chunk: chunk)
      throw error
    }
  }

  private func index(_ chunk: Int, to path: String) async throws -> SegmentFile {
    let texts = try await source.read(chunk, for: .background)
    let segment = try await SegmentBuild.write(texts, to: path, on: disk, for: .background)
    for text in texts { documents.update(text.id, bytes: text.text.count) }
    counted.withLock { count in
      count.documents += UInt64(texts.count)
      count.indexedBytes += UInt64(segment.layout.textBytes)
    }
    return segment
  }

  private func merge(_ segments: [SegmentFile], level: Int) async throws {
    do {
      let merged = try await SegmentMerge.write(segments, to: newPath(), on: disk, for: .background)
      catalogue.hasMerged(into: merged, level: level)
      for segment in segments { unlink(segment.path) }
      counted.withLock { count in
        count.merges += 1
        count.mergedBytes += UInt64(merged.layout.fileBytes)
      }
    } catch {
      catalogue.hasFailed()
      throw error
    }
  }

  private func newPath() -> String {
    "\(folder)/segment-\(nextFile.add(1, ordering: .relaxed).newValue)"
  }
}

/// The documents with most matches, and how many there are.
struct BestDocuments {
  private static let shown = 10

  private(set) var matches = 0
  private(set) var documents = 0
  /// From the best on.
  private(set) var first: [(id: UInt32, matches: Int)] = []

  mutating func add(_ id: UInt32, matches count: Int) {
    matches += count
    documents += 1
    if first.count == Self.shown, let last = first.last, last.matches >= count { return }
    let place = first.firstIndex { $0.matches < count } ?? first.count
    first.insert((id, count), at: place)
    if first.count > Self.shown { first.removeLast() }
  }
}

/// What the kernel thinks of the calling thread, as far as anyone can see it.
struct ThreadPriority: Comparable {
  /// `SCHED_IDLE` is below all nice values.
  private let nice: Int32

  static var current: ThreadPriority {
    ThreadPriority(
      nice: sched_getscheduler(0) == 5 ? 100 : getpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0))
  }

  static func < (left: ThreadPriority, right: ThreadPriority) -> Bool { left.nice > right.nice }
}

func monotonicNow() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
}
