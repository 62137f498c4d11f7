internal import COpportune
import DequeModule
import Glibc

/// Closes, by kind: those that the ring has, and those that wait. A close may take as long as a file
/// system's flush. So background closes must never delay foreground ones, and closes of both classes must not
/// occupy all threads of the kernel or of the pool.
///
/// Of the background's closes that free a file one is in the ring at a time. A file system that tells the
/// device what is free (`discard`) keeps it for milliseconds with each, and foreground reads wait for all
/// that have been sent.
///
/// Invariant: a close waits only while ``Kind/limit`` closes of its kind are in the ring.
struct CloseQueue {
  enum Kind: Int, CaseIterable {
    case foreground, background
    /// Of the background, and frees what its file has on a device.
    case backgroundFrees

    /// The kind of a close of that descriptor, which waits for no file system that hangs.
    init(_ descriptor: Int32, _ ioClass: IOClass) {
      self =
        switch ioClass {
        case .foreground: .foreground
        case .background: opp_file_close_frees(descriptor) ? .backgroundFrees : .background
        }
    }

    /// How many closes of this kind may be in the ring.
    var limit: Int {
      switch self {
      case .foreground, .background: 4
      case .backgroundFrees: 1
      }
    }
  }

  /// How many closes may be in the ring.
  static let limit = Kind.allCases.reduce(0) { $0 + $1.limit }

  private var inFlight = Kind.allCases.map { _ in 0 }
  private var waiting: [Deque<opp_ring_op>] = Kind.allCases.map { _ in [] }

  /// Adds a close. Returns it if it may go to the ring now.
  mutating func begin(_ op: opp_ring_op, _ kind: Kind) -> opp_ring_op? {
    guard inFlight[kind.rawValue] < kind.limit else {
      waiting[kind.rawValue].append(op)
      return nil
    }
    inFlight[kind.rawValue] += 1
    return op
  }

  /// A close has ended: returns the next one that may go.
  mutating func ended(_ kind: Kind) -> opp_ring_op? {
    assert(inFlight[kind.rawValue] > 0)
    if let next = waiting[kind.rawValue].popFirst() { return next }
    inFlight[kind.rawValue] -= 1
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
