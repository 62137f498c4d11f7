/// The gates of all descriptors of the process, whatever app they are of: a close waits for inline calls,
/// since the number may be another file's afterwards.
///
/// Descriptors whose lowest six bits are the same share a gate. That costs a little waiting, and no memory
/// for each.
final class DescriptorGates: @unchecked Sendable {
  // Sendable: gates are atomic words in memory that stays; `closing` is the reactor's.
  private static let count = 64
  /// Each gate on a cache line of its own.
  private static let stride = 8

  private let gates: UnsafeMutablePointer<InlineGate>
  /// By gate: the closes that wait. The reactor's.
  private var closing = [Int](repeating: 0, count: count)

  init() {
    gates = .allocate(capacity: Self.count * Self.stride)
    for index in 0..<Self.count { (gates + index * Self.stride).initialize(to: InlineGate()) }
  }

  deinit {
    assert(closing.allSatisfy { $0 == 0 })
    gates.deallocate()  // an atomic word needs no more
  }

  private static func index(_ descriptor: Int32) -> Int { Int(descriptor) & (count - 1) }

  /// Any thread.
  subscript(descriptor: Int32) -> UnsafeMutablePointer<InlineGate> {
    gates + Self.index(descriptor) * Self.stride
  }

  // MARK: The reactor

  /// A close begins; returns the count of closes with it.
  func beginClose(of descriptor: Int32) -> UInt64 {
    closing[Self.index(descriptor)] += 1
    return self[descriptor].pointee.close()
  }

  /// The close waits no more.
  func endClose(of descriptor: Int32) {
    let index = Self.index(descriptor)
    assert(closing[index] > 0)
    closing[index] -= 1
    if closing[index] == 0 { self[descriptor].pointee.stopWaiting() }
  }

  static func share(_ one: Int32, _ other: Int32) -> Bool { index(one) == index(other) }
}
