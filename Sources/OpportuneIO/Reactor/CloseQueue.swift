internal import COpportune
import DequeModule
import Glibc

/// Closes, by class: those that the ring has, and those that wait for their turn. A close may take as long as
/// a file system's flush, so background's never take the place of foreground's, nor both all threads of the
/// kernel or the pool.
///
/// Invariant: a close waits only while ``limit`` of its class are in the ring.
struct CloseQueue {
  /// Of each class, at once.
  static let limit = 4

  private var inFlight = [0, 0]
  private var waiting: [Deque<opp_ring_op>] = [[], []]

  /// The close, where it may go now.
  mutating func begin(_ op: opp_ring_op, _ ioClass: IOClass) -> opp_ring_op? {
    guard inFlight[ioClass.index] < Self.limit else {
      waiting[ioClass.index].append(op)
      return nil
    }
    inFlight[ioClass.index] += 1
    return op
  }

  /// One has ended: the next that may go.
  mutating func ended(_ ioClass: IOClass) -> opp_ring_op? {
    assert(inFlight[ioClass.index] > 0)
    if let next = waiting[ioClass.index].popFirst() { return next }
    inFlight[ioClass.index] -= 1
    return nil
  }

  /// No thread of the ring's waits for a peer that does not read: the kernel goes on sending after the close.
  /// A time of 0, which resets the connection, stays.
  static func endLingering(_ descriptor: Int32) {
    var time = linger()
    var size = socklen_t(MemoryLayout<linger>.size)
    guard getsockopt(descriptor, SOL_SOCKET, SO_LINGER, &time, &size) == 0, time.l_onoff != 0,
      time.l_linger > 0
    else { return }
    time.l_onoff = 0
    _ = setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &time, size)
  }
}
