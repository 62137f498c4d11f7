/// The gates of all descriptors of the process, of any app. A close waits for inline calls, since the number
/// may belong to another file afterwards.
///
/// Descriptors with the same lowest ten bits share a gate: none below 1024, the usual limit of a process.
/// So a close waits for calls on its own descriptor only, and not for a background's thread that the kernel
/// has stopped inside a call on another one.
final class DescriptorGates: @unchecked Sendable {
  // Sendable: gates are atomic words in memory that is never moved; `closing` belongs to the reactor's
  // thread.
  private static let count = 1024
  private static let lines = 128

  private let gates: UnsafeMutablePointer<InlineGate>
  /// How many closes wait at each gate. Reactor's thread only.
  private var closing = [Int](repeating: 0, count: count)

  init() {
    gates = .allocate(capacity: Self.count)
    for index in 0..<Self.count { (gates + index).initialize(to: InlineGate()) }
  }

  deinit {
    assert(closing.allSatisfy { $0 == 0 })
    gates.deallocate()  // an atomic word needs no deinitialization
  }

  /// Neighbours lie in different cache lines, of eight gates each.
  private static func index(_ descriptor: Int32) -> Int {
    let number = Int(descriptor) & (count - 1)
    return number % lines * (count / lines) + number / lines
  }

  /// Any thread.
  subscript(descriptor: Int32) -> UnsafeMutablePointer<InlineGate> {
    gates + Self.index(descriptor)
  }

  // MARK: The reactor

  /// Closes the gate for a close of the descriptor. Returns the new count of closes.
  func beginClose(of descriptor: Int32) -> UInt64 {
    closing[Self.index(descriptor)] += 1
    return self[descriptor].pointee.close()
  }

  /// The close no longer waits.
  func endClose(of descriptor: Int32) {
    let index = Self.index(descriptor)
    assert(closing[index] > 0)
    closing[index] -= 1
    if closing[index] == 0 { self[descriptor].pointee.stopWaiting() }
  }

  static func share(_ one: Int32, _ other: Int32) -> Bool { index(one) == index(other) }
}
