import Synchronization

/// The index: which segments queries read, and what is to be done, behind one lock.
///
/// Queries read a whole index of all chunks. Background makes the next one, a chunk at a time, merges four
/// segments of a level into one of the next, and at the end puts it in the place of the one before.
final class Catalogue: Sendable {
  /// Segments of a level that are merged into one.
  static let fanIn = 4

  enum Work: Sendable {
    case build(chunk: Int)
    case merge([SegmentFile], level: Int)
    /// Others are at the last of it.
    case nothing
  }

  private struct State: Sendable {
    var current: [SegmentFile]
    var next: [(file: SegmentFile, level: Int)] = []
    var nextChunk = 0
    var inHand = 0
    /// Chunks that are being indexed, from the oldest on, and the segment indexed last.
    var building: [(chunk: Int, segment: Flight<SegmentFile>)] = []
    var newest: (chunk: Int, segment: SegmentFile)?
  }

  private let chunks: Int
  private let state: Mutex<State>

  init(chunks: Int, current: [SegmentFile]) {
    self.chunks = chunks
    state = Mutex(State(current: current))
  }

  /// What a query reads.
  var segments: [SegmentFile] { state.withLock { $0.current } }

  /// What is to be done next; whoever takes it says how it ended.
  func take() -> Work {
    state.withLock { state in
      for level in 0..<32 {
        let same = state.next.filter { $0.level == level }
        if same.isEmpty { continue }
        guard same.count >= Self.fanIn else { continue }
        let chosen = same.prefix(Self.fanIn).map(\.file)
        state.next.removeAll { entry in chosen.contains { $0 === entry.file } }
        state.inHand += 1
        return .merge(chosen, level: level)
      }
      guard state.nextChunk < chunks else { return .nothing }
      state.inHand += 1
      state.nextChunk += 1
      return .build(chunk: state.nextChunk - 1)
    }
  }

  /// A chunk is about to be indexed.
  func isBuilding(_ chunk: Int, _ segment: Flight<SegmentFile>) {
    state.withLock { $0.building.append((chunk, segment)) }
  }

  func hasBuilt(_ chunk: Int, _ segment: SegmentFile) {
    state.withLock { state in
      state.building.removeAll { $0.chunk == chunk }
      state.newest = (chunk, segment)
      state.next.append((segment, 0))
      state.inHand -= 1
    }
  }

  func hasMerged(into segment: SegmentFile, level: Int) {
    state.withLock { state in
      state.next.append((segment, level + 1))
      state.inHand -= 1
    }
  }

  /// What was taken was not done.
  func hasFailed(chunk: Int? = nil) {
    state.withLock { state in
      state.building.removeAll { $0.chunk == chunk }
      state.inHand -= 1
    }
  }

  /// Puts the next index in the place of this one, once all of it is there.
  ///
  /// - Returns: the segments that nobody asks any more, to be removed; nil where it is not whole yet.
  func publish() -> [SegmentFile]? {
    state.withLock { state in
      guard state.inHand == 0, state.nextChunk >= chunks, !state.next.isEmpty else { return nil }
      let count = Dictionary(grouping: state.next, by: \.level).values.map(\.count).max() ?? 0
      guard count < Self.fanIn else { return nil }
      let before = state.current
      state.current = state.next.map(\.file)
      state.next = []
      state.nextChunk = 0
      return before
    }
  }

  /// The chunk that is indexed next, to be waited for; where none is, the one that was indexed last.
  func fresh() -> (chunk: Int, segment: Flight<SegmentFile>)? {
    state.withLock { state in
      if let oldest = state.building.first { return oldest }
      return state.newest.map { newest in (newest.chunk, Flight { newest.segment }) }
    }
  }
}
