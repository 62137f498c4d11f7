public import Synchronization

/// A member of a ``LinkedStack``; of at most one at a time.
@usableFromInline
package protocol Linked: AnyObject {
  /// Owned by the stack: the member below, or 0. Written before the member is published.
  var below: UInt { get set }
}

/// A lock-free stack that any thread pushes to, and that is only ever emptied as a whole. No member is popped
/// alone, so a reused address cannot cause ABA. Retains its members.
///
/// A stack that is never emptied is a list that only grows, which any thread may walk at any time.
///
/// The C core has two such stacks of its own, which its explorer checks: `opp_inbox`, and the messages of a
/// ring.
@usableFromInline
package struct LinkedStack<Member: Linked>: ~Copyable {
  @usableFromInline let top: Atomic<UInt>

  @inlinable
  package init() { top = Atomic(0) }

  deinit {
    // relaxed: no other user is left, and the last release of the stack's owner has ordered all earlier
    // accesses.
    var word = top.load(ordering: .relaxed)
    while let pointer = UnsafeRawPointer(bitPattern: word) {
      word = Unmanaged<Member>.fromOpaque(pointer).takeRetainedValue().below
    }
  }

  @inlinable
  package func push(_ member: Member) {
    let word = UInt(bitPattern: Unmanaged.passRetained(member).toOpaque())
    // relaxed, here and where the exchange fails: a guess, which the exchange compares; nothing is read
    // through it.
    var below = top.load(ordering: .relaxed)
    while true {
      member.below = below
      // seqCst: precedes the pusher's next read of its own condition. releasing: publishes the member to
      // takeAll() and first(where:).
      let (exchanged, original) = top.compareExchange(
        expected: below, desired: word, successOrdering: .sequentiallyConsistent, failureOrdering: .relaxed)
      if exchanged { return }
      below = original
    }
  }

  // seqCst: see push().
  @inlinable
  package var isEmpty: Bool { top.load(ordering: .sequentiallyConsistent) == 0 }

  /// All members, the last pushed first.
  @inlinable
  package func takeAll() -> [Member] {
    guard !isEmpty else { return [] }
    var members: [Member] = []
    var word = top.exchange(0, ordering: .sequentiallyConsistent)  // see push()
    while let pointer = UnsafeRawPointer(bitPattern: word) {
      let member = Unmanaged<Member>.fromOpaque(pointer).takeRetainedValue()
      word = member.below
      members.append(member)
    }
    return members
  }

  /// The first member from the top for which `body` is true. Only for stacks that are never emptied. Never
  /// waits.
  @inlinable
  package func first(where body: (Member) -> Bool) -> Member? {
    // seqCst: see push(). A later push continues the release sequence of earlier ones.
    var word = top.load(ordering: .sequentiallyConsistent)
    while let pointer = UnsafeRawPointer(bitPattern: word) {
      let member = Unmanaged<Member>.fromOpaque(pointer).takeUnretainedValue()
      if body(member) { return member }
      word = member.below
    }
    return nil
  }

  /// Visits all members from the top. Only for stacks that are never emptied.
  @inlinable
  package func visit(_ body: (Member) -> Void) {
    _ = first { member in
      body(member)
      return false
    }
  }
}

extension LinkedStack: Sendable where Member: Sendable {}
