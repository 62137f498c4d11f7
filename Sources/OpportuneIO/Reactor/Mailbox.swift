internal import COpportune
import Synchronization

/// Messages from other threads to the reactor: the ring's lock-free stack, which is fetched as a whole.
///
/// Invariants:
///  - Each posted message is either handled once or refused once.
///  - Messages of one thread are handled in their order.
///  - No message is handled after `close()`.
final class Mailbox: @unchecked Sendable {
  // Sendable: `post` uses only what any thread may use; `taken` belongs to the reactor's thread.
  /// The reactor's, and freed with the mailbox.
  private let ring: OpaquePointer
  private let isClosed = Atomic<Bool>(false)
  /// Messages fetched from the ring and not handled yet, oldest first.
  private var taken: UnsafeMutablePointer<opp_link>?

  /// The limit of messages in one turn, so that a flood of messages does not delay completions.
  static let messagesPerTurn = 128

  init(_ ring: OpaquePointer) { self.ring = ring }

  // The thread retains the reactor and so the mailbox: it has ended here, and nothing is in flight.
  deinit { opp_ring_destroy(ring) }

  // MARK: Any thread

  /// Posts a message; never blocks. If the reactor has ended, the message is refused on this thread.
  func post(_ message: ReactorMessage) {
    let link = message.link.address
    link.pointee.owner = Unmanaged.passRetained(message).toOpaque()
    opp_ring_post(ring, link)
    // [end] seq_cst, after the post: pairs with close(). Either the reactor's last fetch takes the message,
    // or this load sees the mailbox closed.
    if isClosed.load(ordering: .sequentiallyConsistent) { refusePosted() }
  }

  /// Whether the reactor has ended.
  var hasEnded: Bool { isClosed.load(ordering: .acquiring) }

  private func refusePosted() {
    var link = opp_ring_fetch(ring)
    while let message = Self.next(&link) { message.refuse() }
  }

  // MARK: The reactor

  /// Whether messages of an earlier turn are left.
  var hasRest: Bool { taken != nil }

  func takeTurn(_ hear: (ReactorMessage) -> Void) {
    if taken == nil { taken = opp_ring_fetch(ring) }
    for _ in 0..<Self.messagesPerTurn {
      guard let message = Self.next(&taken) else { return }
      hear(message)
    }
  }

  /// Refuses the messages that are left, and all later ones.
  func close() {
    while let message = Self.next(&taken) { message.refuse() }
    isClosed.store(true, ordering: .sequentiallyConsistent)  // [end] before the last fetch
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
