import Synchronization

/// A member of a ``LinkedStack``, of one at a time.
package protocol Linked: AnyObject {
  /// The stack's own: the member below, or 0.
  var below: UInt { get set }
}

/// A stack that any thread pushes to, lock-free, and that is emptied as a whole if at all: nobody takes one member from
/// the top, so it matters to nobody that a member that comes back has the same address. Retains its members.
package struct LinkedStack<Member: Linked>: ~Copyable {
  private let top = Atomic<UInt>(0)

  package init() {}

  deinit { _ = takeAll() }

  package func push(_ member: Member) {
    let word = UInt(bitPattern: Unmanaged.passRetained(member).toOpaque())
    var below = top.load(ordering: .relaxed)
    while true {
      member.below = below
      // seqCst: it comes before the pusher's next look at what he depends on. releasing: publishes the member.
      let (exchanged, original) = top.compareExchange(
        expected: below, desired: word, ordering: .sequentiallyConsistent)
      if exchanged { return }
      below = original
    }
  }

  // seqCst: see push().
  package var isEmpty: Bool { top.load(ordering: .sequentiallyConsistent) == 0 }

  /// The last that was pushed comes first.
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

  /// Looks at all of them, where nobody takes them.
  package func visit(_ body: (Member) -> Void) {
    // seqCst: see push().
    var word = top.load(ordering: .sequentiallyConsistent)
    while let pointer = UnsafeRawPointer(bitPattern: word) {
      let member = Unmanaged<Member>.fromOpaque(pointer).takeUnretainedValue()
      body(member)
      word = member.below
    }
  }
}
