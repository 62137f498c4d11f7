internal import COpportune
import DequeModule
import Glibc

/// Closes, by class: those that the ring has, and those that wait. A close may take as long as a file
/// system's flush. So background closes must never delay foreground ones, and closes of both classes must not
/// occupy all threads of the kernel or of the pool.
///
/// Invariant: a close waits only while ``limit`` closes of its class are in the ring.
struct CloseQueue {
  /// How many closes of each class may be in the ring.
  static let limit = 4

  private var inFlight = [0, 0]
  private var waiting: [Deque<opp_ring_op>] = [[], []]

  /// Adds a close. Returns it if it may go to the ring now.
  mutating func begin(_ op: opp_ring_op, _ ioClass: IOClass) -> opp_ring_op? {
    guard inFlight[ioClass.index] < Self.limit else {
      waiting[ioClass.index].append(op)
      return nil
    }
    inFlight[ioClass.index] += 1
    return op
  }

  /// A close has ended: returns the next one that may go.
  mutating func ended(_ ioClass: IOClass) -> opp_ring_op? {
    assert(inFlight[ioClass.index] > 0)
    if let next = waiting[ioClass.index].popFirst() { return next }
    inFlight[ioClass.index] -= 1
    return nil
  }

  /// Turns off lingering, so that no thread of the ring waits for a peer that does not read; the kernel
  /// continues to send after the close. A linger time of 0, which resets the connection, is kept.
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
