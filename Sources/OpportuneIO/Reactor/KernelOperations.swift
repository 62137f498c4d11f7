internal import COpportune
import Glibc

/// What the kernel is asked for a request, and what its answers teach about asking.
///
/// Invariant: what holds for one request is in ``Request/attempt``, what holds for all of them here.
///
/// The reactor's alone.
final class KernelOperations {
  /// What an answer is to a request.
  enum Verdict {
    /// The answer to the call.
    case final
    /// None: ask once more, in the same place.
    case askAgain
    /// None: the call would have to wait. Wait in a poll until it would not.
    case wouldWait
  }

  private let registered: RegisteredBuffers?
  private let sendsWithoutCopying: Bool
  private let zeroCopyFrom: Int?
  private let priorities: IOConfiguration.KernelPriorities
  /// Whether requests carry kernel priorities; false where the kernel refuses them.
  private var usesPriorities: Bool

  init(
    _ configuration: IOConfiguration, _ capabilities: opp_ring_capabilities, _ registered: RegisteredBuffers?
  ) {
    self.registered = registered
    sendsWithoutCopying = capabilities.zero_copy
    zeroCopyFrom = capabilities.zero_copy ? configuration.zeroCopyFrom : nil
    priorities = configuration.kernelPriorities
    usesPriorities = configuration.kernelPriorities != .none
  }

  /// The call itself, for the request's present piece.
  ///
  /// - Parameter ioClass: of its place in the device; nil: it has none.
  func operation(of request: Request, as ioClass: IOClass?) -> opp_ring_op {
    var op = request.call.operation(done: request.done, piece: request.piece, file: request.file, registered)
    op.priority = priority(of: request, ioClass)
    request.attempt.hasPriority = op.priority != 0
    // Where the socket takes no more, the request waits in a poll, outside of the device's queue: else a few
    // peers that do not read would hold up everybody's sends, and their own app's end.
    if request.call.sends { op.flags |= UInt32(MSG_DONTWAIT) }
    if request.call.code == .OPP_RING_SEND, let zeroCopyFrom, request.piece >= zeroCopyFrom,
      !request.attempt.needsCopy
    {
      op.code = UInt8(opp_ring_code.OPP_RING_SEND_ZERO_COPY.rawValue)
    }
    return op
  }

  private func priority(of request: Request, _ ioClass: IOClass?) -> UInt8 {
    guard usesPriorities, let ioClass, request.call.device == .storage, request.call.movesBytes else {
      return 0
    }
    return UInt8(Self.priority(of: ioClass, priorities).rawValue)
  }

  static func priority(
    of ioClass: IOClass, _ priorities: IOConfiguration.KernelPriorities
  ) -> opp_ring_priority {
    switch (ioClass, priorities) {
    case (_, .none), (.background, .raiseForeground): .OPP_RING_PRIORITY_NONE
    case (.foreground, _): .OPP_RING_PRIORITY_REAL_TIME
    case (.background, .idleBackground): .OPP_RING_PRIORITY_IDLE
    }
  }

  func verdict(on result: Int32, of request: Request) -> Verdict {
    let (code, device) = (request.call.code, request.call.device)
    switch result {
    case -EINTR where !request.call.isClose: break
    case -EAGAIN where device == .network || (request.file.waitsForPeer && request.call.movesBytes):
      return .wouldWait
    case -EAGAIN where request.attempt.retries < 16: request.attempt.retries += 1
    case -EOPNOTSUPP where code == .OPP_RING_SEND && sendsWithoutCopying && !request.attempt.needsCopy:
      request.attempt.needsCopy = true  // not every kind of socket can do without
    case -EPERM where request.attempt.hasPriority:
      // Real-time I/O priority is not for everybody. Once is enough.
      usesPriorities = false
      request.attempt.wasRefusedPriority = true
    case -EPERM where request.attempt.wasRefusedPriority:
      usesPriorities = true  // it was the file
      return .final
    default: return .final
    }
    return .askAgain
  }
}
