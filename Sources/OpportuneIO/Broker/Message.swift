internal import COpportune

/// What other threads tell the owner thread. The link is the core's; posting one allocates nothing more.
class Message {
  let link: UnsafeMutablePointer<opp_link>

  init() {
    link = .allocate(capacity: 1)
    link.initialize(to: opp_link())
  }

  deinit { link.deallocate() }

  /// On the owner thread. A message is posted once; a request may be both posted and in flight, one after the other.
  func arrive(at owner: Owner) {}

  /// Instead, on any thread, where the owner thread has ended.
  func refuse() {}
}

/// Something for the owner to do.
final class Control: Message {
  private let body: (Owner) -> Void
  private let refused: () -> Void

  init(refused: @escaping () -> Void = {}, _ body: @escaping (Owner) -> Void) {
    self.body = body
    self.refused = refused
  }

  override func arrive(at owner: Owner) {
    body(owner)
    owner.discard(self)  // with what the body holds, which may be anything
  }

  override func refuse() { refused() }
}
