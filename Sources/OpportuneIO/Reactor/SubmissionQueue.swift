internal import COpportune
import DequeModule

/// Requests on their way into the kernel's ring, and how many the kernel has.
///
/// Invariants:
///  - requests reach the ring in the order of `submit`; those for which it has no room wait in `overflow`;
///  - `outstanding` counts each request from `submit` to its last completion, and what else is waited for
///    from `addOutstanding` to `removeOutstanding`. The reactor ends only at 0.
///
/// The reactor's alone.
final class SubmissionQueue {
  private let ring: OpaquePointer
  private var overflow = Deque<opp_ring_op>()
  private(set) var outstanding = 0

  init(_ ring: OpaquePointer) { self.ring = ring }

  var hasOverflow: Bool { !overflow.isEmpty }

  func submit(_ op: opp_ring_op) {
    outstanding += 1
    var op = op
    if !overflow.isEmpty || opp_ring_prepare(ring, &op) != 0 { overflow.append(op) }
  }

  /// Asks the kernel to give up what `message` is the tag of. That still ends with its own completion.
  func cancel(_ message: ReactorMessage) {
    var op = opp_ring_op(.OPP_RING_CANCEL, -1)
    op.second = message.tag
    submit(op)
  }

  /// Hands over what waits for room.
  func flush() {
    while var op = overflow.first {
      guard opp_ring_prepare(ring, &op) == 0 else { return }
      overflow.removeFirst()
    }
  }

  /// Waits for completions, messages or the time. Returns how many completions there are, or -errno.
  func wait(_ completions: UnsafeMutableBufferPointer<opp_ring_completion>, until time: UInt64) -> Int32 {
    guard let first = completions.baseAddress else { return 0 }
    return opp_ring_wait(ring, first, UInt32(completions.count), time)
  }

  /// The last completion of a request came.
  func completed() {
    assert(outstanding > 0)
    outstanding -= 1
  }

  /// Something else is waited for, such as a close that waits.
  func addOutstanding() { outstanding += 1 }

  func removeOutstanding() {
    assert(outstanding > 0)
    outstanding -= 1
  }
}

extension opp_ring_op {
  init(_ code: opp_ring_code, _ descriptor: Int32) {
    self.init()
    self.code = UInt8(code.rawValue)
    fd = descriptor
  }
}
