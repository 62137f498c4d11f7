import Synchronization

/// A member of a ``GrowingList``, of one for good.
protocol Listed: AnyObject {
  /// The list's own: the member before this one, set before this one is published and never again.
  var older: Unmanaged<Self>? { get set }
}

/// A list that any thread adds to, lock-free, and that nobody takes from: who walks it waits for nobody. Retains its
/// members.
struct GrowingList<Member: Listed>: ~Copyable {
  private let newest = Atomic<Unmanaged<Member>?>(nil)

  deinit {
    // relaxed: nobody else is here any more, and the last release of who owned the list has ordered all that was done.
    var next = newest.load(ordering: .relaxed)
    while let member = next {
      next = member.takeUnretainedValue().older
      member.release()
    }
  }

  func add(_ member: Member) {
    let kept = Unmanaged.passRetained(member)
    // relaxed, here and where the exchange fails: only a guess, which the exchange compares, and nothing is read by it.
    member.older = newest.load(ordering: .relaxed)
    while true {
      // releasing: the member, to who walks the list (acquiring in first).
      let (done, found) = newest.compareExchange(
        expected: member.older, desired: kept, successOrdering: .releasing, failureOrdering: .relaxed)
      if done { return }
      member.older = found
    }
  }

  /// Newest first.
  func first(where body: (Member) -> Bool) -> Member? {
    // acquiring: the members, each set up by then (releasing in add; later additions continue its release sequence).
    var next = newest.load(ordering: .acquiring)
    while let member = next?.takeUnretainedValue() {
      if body(member) { return member }
      next = member.older
    }
    return nil
  }
}
