internal import COpportune

/// What other threads tell the reactor thread. The link is the core's; posting one allocates nothing more.
class Message {
  let link: UnsafeMutablePointer<opp_link>

  init() {
    link = .allocate(capacity: 1)
    link.initialize(to: opp_link())
  }

  deinit { link.deallocate() }

  /// On the reactor thread. A message is posted once; a request may be both posted and in flight, one after the other.
  func arrive(at reactor: Reactor) {}

  /// Instead, on any thread, where the reactor thread has ended.
  func refuse() {}
}

/// Something for the reactor to do.
final class Control: Message {
  private let body: (Reactor) -> Void
  private let refused: () -> Void

  init(refused: @escaping () -> Void = {}, _ body: @escaping (Reactor) -> Void) {
    self.body = body
    self.refused = refused
  }

  override func arrive(at reactor: Reactor) {
    body(reactor)
    reactor.discard(self)  // with what the body holds, which may be anything
  }

  override func refuse() { refused() }
}
