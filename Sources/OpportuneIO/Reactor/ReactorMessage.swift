internal import COpportune
import Synchronization

/// A message to the reactor. Its address is also the tag of a request in the kernel. The list link is a part
/// of the message, so posting allocates nothing.
class ReactorMessage {
  final let link = MessageLink()

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

/// An `opp_link` in place. The ring keeps its address, which Swift promises for no property of a class but an
/// atomic value that is constant: so its memory is one of those, and only the ring's functions use it.
struct MessageLink: ~Copyable {
  private let memory = Atomic(WordPair(first: 0, second: 0))

  /// Valid as long as what this is a property of.
  var address: UnsafeMutablePointer<opp_link> {
    assert(MemoryLayout<opp_link>.size == MemoryLayout<Atomic<WordPair>>.size)
    return withUnsafePointer(to: memory) {
      UnsafeMutableRawPointer(mutating: $0).assumingMemoryBound(to: opp_link.self)
    }
  }
}
