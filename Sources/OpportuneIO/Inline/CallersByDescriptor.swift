import Synchronization

/// Who does something at once on a descriptor, whatever app's it is: a close waits for those, since the number may be
/// another file's afterwards.
///
/// Descriptors share a few words, by their lowest bits. Each has the count of callers, the count of closes, and a bit that is
/// set while a close waits. As in ``InlineCalls``, the order of the word decides between a caller and a close:
///  - a caller that finds the word as it was when its call began, but for other callers, is waited for. Any other takes itself
///    off again, and goes through the queue, which knows what was closed since. So new callers do not hold a close up;
///  - whoever leaves nobody but a close that waits behind tells the reactor thread, which has gone on with other work.
final class CallersByDescriptor: @unchecked Sendable {
  // Sendable: atomics in memory that stays, and what is the reactor thread's.
  private static let count = 64
  private static let closing: UInt64 = 1 << 63
  private static let close: UInt64 = 1 << 20
  private static let callers = close - 1
  /// Each on a cache line of its own.
  private static let stride = 8

  private let words: UnsafeMutablePointer<Atomic<UInt64>>
  /// The reactor thread's: closes that wait, by word.
  private var waiting = [Int](repeating: 0, count: count)

  init() {
    words = .allocate(capacity: Self.count * Self.stride)
    for index in 0..<Self.count { (words + index * Self.stride).initialize(to: Atomic(0)) }
  }

  deinit { words.deallocate() }

  private static func index(_ descriptor: Int32) -> Int { Int(descriptor) & (count - 1) }

  private func word(_ descriptor: Int32) -> UnsafeMutablePointer<Atomic<UInt64>> {
    words + Self.index(descriptor) * Self.stride
  }

  // MARK: Callers

  /// A number that grows with each close of the descriptor that begins, and of some others.
  func closes(of descriptor: Int32) -> UInt64 {
    // Relaxed: who has the number from an open after a close has seen that close.
    word(descriptor).pointee.load(ordering: .relaxed) & ~(Self.closing | Self.callers)
  }

  /// After ``InlineCalls/Entry/inside`` the caller leaves; after ``InlineCalls/Entry/refusedAsLast`` it tells the reactor.
  ///
  /// - Parameter closes: when the call began.
  func enter(_ descriptor: Int32, since closes: UInt64) -> InlineCalls.Entry {
    let word = word(descriptor)
    guard word.pointee.load(ordering: .relaxed) & ~Self.callers == closes else { return .refused }  // decides nothing
    guard word.pointee.wrappingAdd(1, ordering: .acquiring).oldValue & ~Self.callers == closes else {
      return leave(descriptor) ? .refusedAsLast : .refused
    }
    return .inside
  }

  /// Whether nobody is left, and a close waits.
  func leave(_ descriptor: Int32) -> Bool {
    // [left on descriptor] release: what was done comes before the close.
    let left = word(descriptor).pointee.wrappingSubtract(1, ordering: .releasing).newValue
    return left & (Self.closing | Self.callers) == Self.closing
  }

  // MARK: The reactor thread

  /// A close begins; returns the count with it.
  func beginClose(of descriptor: Int32) -> UInt64 {
    waiting[Self.index(descriptor)] += 1
    let word = word(descriptor)
    word.pointee.bitwiseOr(Self.closing, ordering: .relaxed)  // first: nobody may come in who has seen the count
    return word.pointee.wrappingAdd(Self.close, ordering: .relaxed).newValue & ~(Self.closing | Self.callers)
  }

  /// Whether somebody is inside who may have come before the close.
  func isBusy(_ descriptor: Int32) -> Bool {
    word(descriptor).pointee.load(ordering: .acquiring) & Self.callers != 0  // [left on descriptor]
  }

  /// The close waits no more.
  func endClose(of descriptor: Int32) {
    waiting[Self.index(descriptor)] -= 1
    guard waiting[Self.index(descriptor)] == 0 else { return }
    word(descriptor).pointee.bitwiseAnd(~Self.closing, ordering: .relaxed)
  }

  static func share(_ one: Int32, _ other: Int32) -> Bool { index(one) == index(other) }
}
