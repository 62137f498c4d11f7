public import Synchronization

/// A member of a ``LinkedStack``, of one at a time.
@usableFromInline
package protocol Linked: AnyObject {
  /// The stack's own: the member below, or 0. Set before the member is published.
  var below: UInt { get set }
}

/// A stack that any thread pushes to, lock-free, and that is emptied as a whole if at all: nobody takes one
/// member from the top, so it matters to nobody that a member that comes back has the same address. Retains
/// its members.
///
/// A stack that is never emptied is a list that only grows, which anybody may walk at any time.
///
/// The C core has two of its own, which its explorer checks: `opp_inbox`, and the messages of a ring.
@usableFromInline
package struct LinkedStack<Member: Linked>: ~Copyable {
  @usableFromInline let top: Atomic<UInt>

  @inlinable
  package init() { top = Atomic(0) }

  deinit {
    // relaxed: nobody else is here any more, and the last release of the stack's owner has ordered all that
    // was done.
    var word = top.load(ordering: .relaxed)
    while let pointer = UnsafeRawPointer(bitPattern: word) {
      word = Unmanaged<Member>.fromOpaque(pointer).takeRetainedValue().below
    }
  }

  @inlinable
  package func push(_ member: Member) {
    let word = UInt(bitPattern: Unmanaged.passRetained(member).toOpaque())
    // relaxed, here and where the exchange fails: only a guess, which the exchange compares, and nothing is
    // read by it.
    var below = top.load(ordering: .relaxed)
    while true {
      member.below = below
      // seqCst: it comes before the pusher's next look at what he depends on. releasing: publishes the
      // member, to takeAll() and first(where:).
      let (exchanged, original) = top.compareExchange(
        expected: below, desired: word, successOrdering: .sequentiallyConsistent, failureOrdering: .relaxed)
      if exchanged { return }
      below = original
    }
  }

  // seqCst: see push().
  @inlinable
  package var isEmpty: Bool { top.load(ordering: .sequentiallyConsistent) == 0 }

  /// The last that was pushed comes first.
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

  /// The first from the top of which `body` is true, where nobody takes them. Waits for nobody.
  @inlinable
  package func first(where body: (Member) -> Bool) -> Member? {
    // seqCst: see push(). A later push continues the release sequence of those below.
    var word = top.load(ordering: .sequentiallyConsistent)
    while let pointer = UnsafeRawPointer(bitPattern: word) {
      let member = Unmanaged<Member>.fromOpaque(pointer).takeUnretainedValue()
      if body(member) { return member }
      word = member.below
    }
    return nil
  }

  /// Looks at all of them from the top, where nobody takes them.
  @inlinable
  package func visit(_ body: (Member) -> Void) {
    _ = first { member in
      body(member)
      return false
    }
  }
}

extension LinkedStack: Sendable where Member: Sendable {}
