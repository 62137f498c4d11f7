import OpportuneBase
import Synchronization

/// A full-text index that grows while it is read.
///
/// Each chunk of the tree has a place of its own, empty until its immutable segment is published there by one
/// atomic store. Readers look at every place and take no lock; a writer that stops half-way hides nothing but
/// its own segment. Segments live as long as the index.
final class SearchIndex: @unchecked Sendable {
  private struct Place: ~Copyable {
    /// A retained `Segment`, or nil.
    let segment = Atomic<UnsafeRawPointer?>(nil)
    /// Nanoseconds after the index was begun.
    let publishedAt = Atomic<UInt64>(0)
  }

  private let places: UnsafeMutablePointer<Place>
  let count: Int
  private let begun: Nanoseconds

  init(chunks count: Int, begun: Nanoseconds) {
    self.count = count
    self.begun = begun
    places = .allocate(capacity: max(1, count))
    for index in 0..<count { (places + index).initialize(to: Place()) }
  }

  deinit {
    for index in 0..<count {
      if let raw = places[index].segment.load(ordering: .acquiring) {
        Unmanaged<Segment>.fromOpaque(raw).release()
      }
    }
    places.deinitialize(count: count)
    places.deallocate()
  }

  /// Publishes the segment of a chunk; one that is already there stays, and this one is dropped.
  func publish(_ segment: Segment, at chunk: Int) {
    guard chunk >= 0, chunk < count else { return }
    let raw = UnsafeRawPointer(Unmanaged.passRetained(segment).toOpaque())
    // [index-publish] release: who sees the pointer sees the segment and its time. Pairs with segment(at:).
    places[chunk].publishedAt.store(elapsed(from: begun, to: SystemClock.now()), ordering: .relaxed)
    let outcome = places[chunk].segment.compareExchange(
      expected: nil, desired: raw, ordering: .acquiringAndReleasing)
    if !outcome.exchanged { Unmanaged<Segment>.fromOpaque(raw).release() }
  }

  /// The segment of a chunk, if it was published no later than `time` after the index was begun.
  func segment(at chunk: Int, publishedBy time: Nanoseconds = .max) -> Segment? {
    // [index-publish] acquire.
    guard let raw = places[chunk].segment.load(ordering: .acquiring),
      time == .max || places[chunk].publishedAt.load(ordering: .relaxed) <= time
    else { return nil }
    return Unmanaged<Segment>.fromOpaque(raw).takeUnretainedValue()
  }

  func has(_ chunk: Int) -> Bool { segment(at: chunk) != nil }

  /// What is indexed so far, in answer to a query.
  func answer(_ query: Query, publishedBy time: Nanoseconds = .max, notesChunks: Bool = false) -> Answer {
    var answer = Answer()
    for chunk in 0..<count {
      guard let segment = segment(at: chunk, publishedBy: time) else { continue }
      answer.matches += segment.count(query, files: &answer.files, filesMax: Answer.filesMax)
      if notesChunks { answer.chunks.append(chunk) }
    }
    return answer
  }

  /// Occurrences of the query in each file.
  func tally(_ query: Query) -> [Int: Int] {
    var counts: [Int: Int] = [:]
    for chunk in 0..<count { segment(at: chunk)?.tally(query, into: &counts) }
    return counts
  }
}

/// How often a query occurs, and the first files in which it does.
struct Answer: Sendable, Equatable {
  static let filesMax = 10
  var matches = 0
  /// Indices into the corpus's files.
  var files: [Int] = []
  /// The chunks that were indexed then, where asked for.
  var chunks: [Int] = []
}
