internal import COpportune
import Synchronization

/// What other threads tell the reactor thread.
extension Reactor {
  /// Hands a message over. Where the reactor thread has ended, it is refused here and now.
  func post(_ message: Message) {
    guard !isForked else { return message.refuse() }
    message.link.pointee.owner = Unmanaged.passRetained(message).toOpaque()
    opp_ring_post(ring, message.link)
    // [end] after the post: either the thread's last look takes the message, or this one sees that it has ended.
    if hasEnded.load(ordering: .sequentiallyConsistent) { refusePosted() }
  }

  func refusePosted() {
    var link = opp_ring_fetch(ring)
    while let message = Self.next(&link) { message.refuse() }
  }

  // MARK: The reactor thread

  func refuseFetched() {
    while let message = Self.next(&fetched) { message.refuse() }
  }

  private static func next(_ link: inout UnsafeMutablePointer<opp_link>?) -> Message? {
    while let current = link {
      link = current.pointee.next
      guard let reactor = current.pointee.owner else { continue }
      return Unmanaged<Message>.fromOpaque(reactor).takeRetainedValue()
    }
    return nil
  }

  /// No more of them in a turn: however many are posted, what the kernel has done is looked at in between.
  static let messagesPerTurn = 128

  func takeMessages() {
    if fetched == nil { fetched = opp_ring_fetch(ring) }
    for _ in 0..<Self.messagesPerTurn {
      guard let message = Self.next(&fetched) else { return }
      message.arrive(at: self)
    }
  }
}
