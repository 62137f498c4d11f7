internal import COpportune

/// What other threads post to the reactor, and what the tag of a request in the kernel names. The link is the
/// core's, so posting allocates nothing.
class ReactorMessage {
  let link: UnsafeMutablePointer<opp_link>

  init() {
    link = .allocate(capacity: 1)
    link.initialize(to: opp_link())
  }

  deinit { link.deallocate() }

  /// Called on any thread, instead of the message being heard, where the reactor has ended.
  func refuse() {}

  /// As the kernel carries it. It holds the message until `takeRetained(tag:)`.
  final func retainedTag() -> UInt64 {
    UInt64(UInt(bitPattern: Unmanaged<ReactorMessage>.passRetained(self).toOpaque()))
  }

  /// The same number, which holds nothing.
  final var tag: UInt64 {
    UInt64(UInt(bitPattern: Unmanaged<ReactorMessage>.passUnretained(self).toOpaque()))
  }

  /// nil for 0, the tag of what nobody waits for.
  static func named(by tag: UInt64) -> Unmanaged<ReactorMessage>? {
    UnsafeRawPointer(bitPattern: UInt(tag)).map { Unmanaged<ReactorMessage>.fromOpaque($0) }
  }
}

/// A function for the reactor's thread. It and ``Reactor`` name each other, since to be called with the
/// reactor is all it is for.
final class Control: ReactorMessage {
  private let body: (Reactor) -> Void
  private let refused: () -> Void

  /// - Parameter refused: called instead of `body`, on any thread, where the reactor has ended.
  init(refused: @escaping () -> Void = {}, _ body: @escaping (Reactor) -> Void) {
    self.body = body
    self.refused = refused
  }

  func run(on reactor: Reactor) { body(reactor) }

  override func refuse() { refused() }
}

/// A request to the kernel of the reactor's own, such as a poll of a socket that is kept alive.
final class KernelCall: ReactorMessage {
  private let body: (KernelCall, Int32) -> Void

  /// - Parameter body: called once, on the reactor's thread, with the kernel's answer.
  init(_ body: @escaping (KernelCall, Int32) -> Void) { self.body = body }

  func completed(_ result: Int32) { body(self, result) }
}
