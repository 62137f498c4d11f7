internal import COpportune
import DequeModule

/// Requests on their way into the kernel's ring, and the count of outstanding requests.
///
/// Invariants:
///  - Requests reach the ring in the order of `submit`. Those for which the ring has no room wait in
///    `overflow`.
///  - `outstanding` counts each request from `submit` to its last completion, and other waits from
///    `addOutstanding` to `removeOutstanding`. The reactor ends only at 0.
///
/// Reactor's thread only.
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

  /// Asks the kernel to cancel the request with the tag of `message`. The request still has its own
  /// completion.
  func cancel(_ message: ReactorMessage) {
    var op = opp_ring_op(.OPP_RING_CANCEL, -1)
    op.second = message.tag
    submit(op)
  }

  /// Submits requests that wait for room in the ring.
  func flush() {
    while var op = overflow.first {
      guard opp_ring_prepare(ring, &op) == 0 else { return }
      overflow.removeFirst()
    }
  }

  /// Waits for completions, for messages or until `time`. Returns the number of completions, or -errno.
  func wait(_ completions: UnsafeMutableBufferPointer<opp_ring_completion>, until time: UInt64) -> Int32 {
    guard let first = completions.baseAddress else { return 0 }
    return opp_ring_wait(ring, first, UInt32(completions.count), time)
  }

  /// Counts the last completion of a request.
  func completed() {
    assert(outstanding > 0)
    outstanding -= 1
  }

  /// Counts another wait, such as that of a close.
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
