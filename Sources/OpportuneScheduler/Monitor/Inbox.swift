internal import COpportune

/// Messages to one thread from any: the C core's lock-free inbox, of Swift values.
final class Inbox<Message>: @unchecked Sendable {
  // Sendable: the C object is thread-safe, and an envelope is one thread's at a time.
  private final class Envelope {
    let message: Message
    init(_ message: Message) { self.message = message }
  }

  private let inbox: OpaquePointer

  /// nil where memory is short.
  init?() {
    guard let inbox = opp_inbox_create() else { return nil }
    self.inbox = inbox
  }

  deinit { opp_inbox_destroy(inbox) { Unmanaged<AnyObject>.fromOpaque($0).release() } }

  /// Any thread; never blocks. Returns false where memory is short; then the message is not there.
  func push(_ message: Message) -> Bool {
    let envelope = Unmanaged.passRetained(Envelope(message))
    if opp_inbox_push(inbox, envelope.toOpaque()) == 0 { return true }
    envelope.release()
    return false
  }

  /// The reader's thread: takes what was pushed, oldest first.
  func fetch() -> [Message] {
    // A function that C calls knows no type parameter.
    var envelopes: [UnsafeMutableRawPointer] = []
    withUnsafeMutablePointer(to: &envelopes) { list in
      opp_inbox_fetch(
        inbox,
        { envelope, context in
          context?.assumingMemoryBound(to: [UnsafeMutableRawPointer].self).pointee.append(envelope)
        }, list)
    }
    return envelopes.map { Unmanaged<Envelope>.fromOpaque($0).takeRetainedValue().message }
  }
}
