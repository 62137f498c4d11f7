internal import COpportune
import Synchronization

/// Messages of other threads to the reactor: a lock-free stack of the ring's, taken whole.
///
/// Invariants:
///  - each message posted is heard once or refused once;
///  - of one thread's messages, an earlier one is heard first;
///  - nothing is heard after `close()`.
final class Mailbox: @unchecked Sendable {
  // Sendable: `post` uses what any thread may; `taken` is the reactor's.
  private let ring: OpaquePointer
  private let isClosed = Atomic<Bool>(false)
  /// Taken from the ring and not heard yet, oldest first.
  private var taken: UnsafeMutablePointer<opp_link>?

  /// At most so many messages are heard in a turn, so that a flood of them holds up no completion.
  static let messagesPerTurn = 128

  init(_ ring: OpaquePointer) { self.ring = ring }

  // MARK: Any thread

  /// Never blocks. Where the reactor has ended, the message is refused here and now.
  func post(_ message: ReactorMessage) {
    message.link.pointee.owner = Unmanaged.passRetained(message).toOpaque()
    opp_ring_post(ring, message.link)
    // [end] seq_cst, after the post: either the reactor's last look takes the message, or this sees that it
    // was closed. Pairs with close().
    if isClosed.load(ordering: .sequentiallyConsistent) { refusePosted() }
  }

  /// Whether the reactor has ended.
  var hasEnded: Bool { isClosed.load(ordering: .acquiring) }

  private func refusePosted() {
    var link = opp_ring_fetch(ring)
    while let message = Self.next(&link) { message.refuse() }
  }

  // MARK: The reactor

  /// Whether some are left from the turn before.
  var hasRest: Bool { taken != nil }

  func takeTurn(_ hear: (ReactorMessage) -> Void) {
    if taken == nil { taken = opp_ring_fetch(ring) }
    for _ in 0..<Self.messagesPerTurn {
      guard let message = Self.next(&taken) else { return }
      hear(message)
    }
  }

  /// Refuses what is left, and all that comes.
  func close() {
    while let message = Self.next(&taken) { message.refuse() }
    isClosed.store(true, ordering: .sequentiallyConsistent)  // [end] before the last look
    refusePosted()
  }

  private static func next(_ link: inout UnsafeMutablePointer<opp_link>?) -> ReactorMessage? {
    while let current = link {
      link = current.pointee.next
      guard let owner = current.pointee.owner else { continue }
      return Unmanaged<ReactorMessage>.fromOpaque(owner).takeRetainedValue()
    }
    return nil
  }
}
