internal import OpportuneBase
import Synchronization

/// A value that many read and few replace: a published snapshot. Readers never wait; a writer builds the next
/// value aside and then replaces the old one. So the foreground may read what the background makes, without a
/// lock between them.
///
/// ```swift
/// let index = Published(Index())
/// index.value.find(word)                 // a reader; keeps the snapshot that it got
/// index.publish(Index(reading: files))   // a writer, which has built it at its leisure
/// index.update { $0.adding(file) }       // several writers: one after the other, without a lock
/// ```
///
/// Any number of readers and writers, on any thread. A reader makes two atomic additions to one cache line
/// and copies the value: choose a reference or a collection, whose copy is one more reference count.
///
/// How it works. The value is in a box, and `current` points to it. A reader counts itself in, loads the
/// pointer, copies the value, and counts itself out. A writer exchanges the pointer and retires the old box.
/// The box is freed once no reader that may have loaded it is left: once each of the two counters has been
/// zero at some time after the exchange.
///
/// Why that is enough, on any machine. The count in, the load, the exchange and the read of a counter are
/// sequentially consistent, so they have one total order. A reader that loaded the old pointer did so before
/// the exchange, and counted itself in before the load. A counter is never below the number of its readers.
/// So if a read of that counter after the exchange finds zero, the reader has counted itself out. Its count
/// out releases its accesses to the box, and the read of the counter acquires them.
///
/// Why boxes are freed although readers never stop. Readers count themselves in at the counter that `side`
/// names. The writer flips `side`, so that the other counter drains. A reader that is stopped between its
/// read of `side` and its count only delays that. What is still retired is left to the next writer; no writer
/// waits.
public final class Published<Value: Sendable>: Sendable {
  private let current: Atomic<UInt>
  private let readers0 = Atomic<Int>(0)
  private let readers1 = Atomic<Int>(0)
  /// The counter for new readers.
  private let side = Atomic<Int>(0)
  private let retired = LinkedStack<Box>()
  /// Whether a thread frees retired boxes; guards `aging`.
  private let isFreeing = Atomic<Bool>(false)
  private let aging = Aging()

  private final class Box: Linked, @unchecked Sendable {
    let value: Value
    // The stack's; see ``LinkedStack``.
    var below: UInt = 0

    init(_ value: Value) { self.value = value }
  }

  /// What is retired, by the counters that have been at zero since: none, the first, the second. Guarded by
  /// `isFreeing`.
  private final class Aging: @unchecked Sendable { var boxes: [[Box]] = [[], [], []] }

  /// Publishes the first value.
  public init(_ value: Value) { current = Atomic(Self.retain(Box(value))) }

  // relaxed: no other thread has a reference any more, and the last release ordered all accesses before this.
  deinit { Self.box(current.load(ordering: .relaxed)).release() }

  private static func retain(_ box: Box) -> UInt { UInt(bitPattern: Unmanaged.passRetained(box).toOpaque()) }

  // Only for words that retain() has made.
  private static func box(_ word: UInt) -> Unmanaged<Box> {
    Unmanaged.fromOpaque(UnsafeRawPointer(bitPattern: word).unsafelyUnwrapped)
  }

  // MARK: Reading

  /// The value that was published last. Never waits.
  public var value: Value { read { $0._withUnsafeGuaranteedRef(\.value) } }

  /// Calls `body` with the box, which is there until that returns.
  private func read<Result>(_ body: (Unmanaged<Box>) -> Result) -> Result {
    let isFirst = side.load(ordering: .relaxed) == 0  // either is right, see above
    // seqCst: see above.
    if isFirst {
      readers0.add(1, ordering: .sequentiallyConsistent)
    } else {
      readers1.add(1, ordering: .sequentiallyConsistent)
    }
    // releasing: what was done with the box comes before. Pairs with drained().
    defer {
      if isFirst {
        readers0.subtract(1, ordering: .releasing)
      } else {
        readers1.subtract(1, ordering: .releasing)
      }
    }
    return body(Self.box(current.load(ordering: .sequentiallyConsistent)))
  }

  // MARK: Writing

  /// Replaces the value. Readers keep the value that they have; readers that begin after this returns get
  /// this value or a later one.
  public func publish(_ value: Value) {
    // seqCst: see above. It publishes the box, and acquires the old one, which may be freed here.
    retire(current.exchange(Self.retain(Box(value)), ordering: .sequentiallyConsistent))
  }

  /// Replaces the value by the result of `transform`. If another writer was faster, `transform` is called
  /// again with the newer value, so it should have no side effects. One of the writers always succeeds.
  ///
  /// - Returns: what was published.
  /// - Throws: what `transform` throws; nothing is published then.
  @discardableResult
  public func update<E: Error>(_ transform: (Value) throws(E) -> Value) throws(E) -> Value {
    while true {
      // Kept alive until the comparison, so that no new box gets its address.
      let seen = read { $0.takeUnretainedValue() }
      let next = try transform(seen.value)
      let word = Self.retain(Box(next))
      // seqCst: as in publish().
      let (exchanged, original) = current.compareExchange(
        expected: UInt(bitPattern: Unmanaged.passUnretained(seen).toOpaque()), desired: word,
        ordering: .sequentiallyConsistent)
      if exchanged {
        retire(original)
        return next
      }
      Self.box(word).release()
    }
  }

  // MARK: Freeing

  /// `word` is not current any more.
  private func retire(_ word: UInt) {
    retired.push(Self.box(word).takeRetainedValue())
    // A thread that is stopped while it frees keeps others from freeing, and from nothing else. seqCst, here
    // and below: that thread looks once more after it has left, so one of the two threads sees the box.
    while !retired.isEmpty, !isFreeing.exchange(true, ordering: .sequentiallyConsistent) {
      free()
      isFreeing.store(false, ordering: .sequentiallyConsistent)
    }
  }

  private func free() {
    aging.boxes[0] += retired.takeAll()
    // Twice: the second time for the readers of the side that was in use before the flip.
    for _ in 0..<2 where !aging.boxes.allSatisfy(\.isEmpty) {
      // Looked at after these boxes were retired. Each moves on twice at most, however many there are.
      switch drained() {
      case 1: age(to: 1, freeing: 2)
      case 2: age(to: 2, freeing: 1)
      case 3: aging.boxes = [[], [], []]
      default: break
      }
      // relaxed: a hint. New readers use the counter that no retired box waits for.
      side.store(aging.boxes[2].isEmpty ? 0 : 1, ordering: .relaxed)
    }
  }

  private func age(to next: Int, freeing last: Int) {
    aging.boxes[last] = []
    aging.boxes[next] += aging.boxes[0]
    aging.boxes[0] = []
  }

  /// Bit by counter, whether nobody is inside.
  private func drained() -> Int {
    // seqCst: after the exchange; see above. acquiring: pairs with the count out.
    (readers0.load(ordering: .sequentiallyConsistent) == 0 ? 1 : 0)
      | (readers1.load(ordering: .sequentiallyConsistent) == 0 ? 2 : 0)
  }

  /// How many old values are kept still. For tests; while nobody writes.
  var kept: Int { aging.boxes.reduce(0) { $0 + $1.count } }
}
