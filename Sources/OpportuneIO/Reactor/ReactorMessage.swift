internal import COpportune

/// A message to the reactor. Its address is also the tag of a request in the kernel. The list link is made
/// with the message, so posting allocates nothing. It is an allocation of its own: the ring keeps its
/// address, and Swift promises none for a property of a class; a ManagedBuffer has one, but no subclass of it
/// may have properties, as the kinds of messages do.
class ReactorMessage {
  let link: UnsafeMutablePointer<opp_link>

  init() {
    link = .allocate(capacity: 1)
    link.initialize(to: opp_link())
  }

  deinit { link.deallocate() }

  /// Called on any thread in place of handling, where the reactor has ended.
  func refuse() {}

  /// The tag for the kernel. It retains the message until `takeRetained(tag:)`.
  final func retainedTag() -> UInt64 {
    UInt64(UInt(bitPattern: Unmanaged<ReactorMessage>.passRetained(self).toOpaque()))
  }

  /// The same tag, unretained.
  final var tag: UInt64 {
    UInt64(UInt(bitPattern: Unmanaged<ReactorMessage>.passUnretained(self).toOpaque()))
  }

  /// nil for 0, the tag of operations without a waiting message.
  static func named(by tag: UInt64) -> Unmanaged<ReactorMessage>? {
    UnsafeRawPointer(bitPattern: UInt(tag)).map { Unmanaged<ReactorMessage>.fromOpaque($0) }
  }
}

/// A closure for the reactor's thread. Its type and ``Reactor`` refer to each other, since the closure is
/// called with the reactor.
final class Control: ReactorMessage {
  private let body: (Reactor) -> Void
  private let refused: () -> Void

  /// - Parameter refused: called in place of `body`, on any thread, where the reactor has ended.
  init(refused: @escaping () -> Void = {}, _ body: @escaping (Reactor) -> Void) {
    self.body = body
    self.refused = refused
  }

  func run(on reactor: Reactor) { body(reactor) }

  override func refuse() { refused() }
}

/// A kernel request without a caller, such as a poll of a socket that is kept alive.
final class KernelCall: ReactorMessage {
  private let body: (KernelCall, Int32) -> Void

  /// - Parameter body: called once, on the reactor's thread, with the kernel's answer.
  init(_ body: @escaping (KernelCall, Int32) -> Void) { self.body = body }

  func completed(_ result: Int32) { body(self, result) }
}
