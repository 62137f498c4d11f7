/// The gates of all descriptors of the process, of any app. A close waits for inline calls, since the number
/// may belong to another file afterwards.
///
/// Descriptors with the same lowest six bits share a gate. That costs a little waiting, and saves memory for
/// each descriptor.
final class DescriptorGates: @unchecked Sendable {
  // Sendable: gates are atomic words in memory that is never moved; `closing` belongs to the reactor's
  // thread.
  private static let count = 64
  /// One cache line for each gate.
  private static let stride = 8

  private let gates: UnsafeMutablePointer<InlineGate>
  /// How many closes wait at each gate. Reactor's thread only.
  private var closing = [Int](repeating: 0, count: count)

  init() {
    gates = .allocate(capacity: Self.count * Self.stride)
    for index in 0..<Self.count { (gates + index * Self.stride).initialize(to: InlineGate()) }
  }

  deinit {
    assert(closing.allSatisfy { $0 == 0 })
    gates.deallocate()  // an atomic word needs no deinitialization
  }

  private static func index(_ descriptor: Int32) -> Int { Int(descriptor) & (count - 1) }

  /// Any thread.
  subscript(descriptor: Int32) -> UnsafeMutablePointer<InlineGate> {
    gates + Self.index(descriptor) * Self.stride
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
