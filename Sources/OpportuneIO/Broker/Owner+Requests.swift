internal import COpportune
import Glibc
import SystemPackage

/// The way of a request through the owner thread. Each step is taken once; `end` is the only way out.
extension Owner {
  // MARK: In

  func submit(_ request: Request) {
    request.submittedAt = now
    guard let app = owned(request.app), !app.isTerminated, !refuses else {
      return end(request, .failed(refuses ? .unavailable : .terminated))
    }
    app.counters[ioClass(of: app, request.device).index].submitted += 1
    if let reason = request.reason { return end(request, .failed(reason)) }
    if request.deadline <= now { return end(request, .failed(.deadlineExceeded)) }
    if request.deadline != .max { setTimer(.deadline(request), at: request.deadline) }
    enqueue(request)
  }

  /// Into the arbiter's queue; with the ticket of a piece before, back to its place there.
  private func enqueue(_ request: Request, at ticket: Arbiter<Request>.Ticket? = nil) {
    guard let app = owned(request.app) else { return end(request, .failed(.terminated)) }
    guard request.device != .none else { return send(request) }
    let isBackground = ioClass(of: app, request.device) == .background
    request.piece = nextPiece(of: request, isBackground ? policy(of: request.device).chunk : .max)
    let cost = Arbiter<Request>.Cost(bytes: UInt64(request.piece), occupies: !request.waitsForOthers)
    let queued = arbiters[request.device.rawValue].submit(request, app: app.slot, cost: cost, at: ticket)
    guard let queued else { return end(request, .failed(.terminated)) }
    request.phase = .queued(queued)
  }

  private func nextPiece(of request: Request, _ chunk: Int) -> Int {
    let isWhole = request.code == .OPP_RING_READV || request.code == .OPP_RING_WRITEV
    let left = request.total - request.done
    return isWhole ? left : min(left, chunk, 1 << 30)
  }

  // MARK: To the kernel

  func dispatchAll() {
    for device in arbiters.indices {
      while let grant = arbiters[device].next(now: now) { dispatch(grant, device) }
    }
  }

  private func dispatch(_ grant: Arbiter<Request>.Grant, _ device: Int) {
    let request = grant.item
    // Suspended since: it must not reach the kernel, whatever the owner has heard of it so far.
    if request.app.state == .suspended, let app = owned(request.app), app.state != .suspended {
      arbiters[device].finished(grant, sentAt: now, submittedAt: now, now: now)
      arbiters[device].refund(grant.cost.bytes, of: grant.ioClass)
      setState(.suspended, of: app)
      return enqueue(request, at: grant.ticket)
    }
    request.grant = grant
    if grant.ioClass == .background {
      // It was cut as foreground, if it became background while it waited.
      request.piece = min(request.piece, nextPiece(of: request, arbiters[device].policy.chunk))
    }
    send(request)
  }

  private func send(_ request: Request) {
    request.phase = .inFlight
    request.sentAt = now
    var op = request.op
    if request.movesBytes, request.code != .OPP_RING_READV, request.code != .OPP_RING_WRITEV {
      op.address += UInt64(request.done)
      op.length = UInt32(request.piece)
      if !request.isStream { op.offset += UInt64(request.done) }
    }
    let ioClass = request.grant?.ioClass
    op.priority = priority(of: request, ioClass)
    if request.code == .OPP_RING_SEND, let least = configuration.zeroCopyFrom, can.zero_copy, request.piece >= least {
      op.code = UInt8(opp_ring_code.OPP_RING_SEND_ZERO_COPY.rawValue)
    }
    if let ioClass, let app = owned(request.app) {
      app.counters[ioClass.index].waiting.record(now - request.submittedAt)
    }
    if request.isClose { willClose(request) }
    begin(op, request)
  }

  private func begin(_ op: opp_ring_op, _ request: Request) {
    var op = op
    op.tag = UInt64(UInt(bitPattern: Unmanaged<Message>.passRetained(request).toOpaque()))
    owned(request.app)?.add(request)
    prepare(op)
  }

  private func priority(of request: Request, _ ioClass: IOClass?) -> UInt8 {
    guard usesPriorities, let ioClass, request.device == .storage, request.movesBytes else { return 0 }
    let priority: opp_ring_priority =
      switch ioClass {
      case .foreground: .OPP_RING_PRIORITY_REAL_TIME
      case .background:
        configuration.kernelPriorities == .idleBackground ? .OPP_RING_PRIORITY_IDLE : .OPP_RING_PRIORITY_NONE
      }
    return UInt8(priority.rawValue)
  }

  /// What is in flight on a descriptor that is closed would go on, and answer on another that gets its number.
  private func willClose(_ request: Request) {
    guard let app = owned(request.app) else { return }
    app.descriptors[request.op.fd] = nil
    for watch in app.watches { watch.drop(request.op.fd, at: self) }
    guard app.inFlight.contains(where: { $0.op.fd == request.op.fd }) else { return }
    var op = opp_ring_op()
    op.code = UInt8(opp_ring_code.OPP_RING_CANCEL_FD.rawValue)
    op.fd = request.op.fd
    prepare(op)
  }

  // MARK: Back

  /// The kernel has let go of the request.
  func finished(_ request: Request, _ result: Int32) {
    let app = owned(request.app)
    app?.remove(request)
    let result = request.firstResult ?? result
    request.firstResult = nil
    if request.isDetached { return release(request, result) }
    let wasPolling = request.isPolling
    request.isPolling = false
    if request.reason == nil, request.phase.isInFlight {
      if wasPolling, result >= 0 { return again(request) }
      if !wasPolling, retry(request, result) { return }
    }
    account(request, result, app)
    guard result >= 0 || request.reason != nil else { return end(request, .failed(.system(Errno(rawValue: -result)))) }
    if result >= 0, request.movesBytes {
      request.done += Int(result)
      if goesOn(request, Int(result)) {
        let ticket = request.grant?.ticket
        request.grant = nil
        if request.reason == nil, app?.isTerminated == false { return enqueue(request, at: ticket) }
      } else {
        return end(request, .value(request.done))
      }
    }
    if let reason = request.reason, result < 0 || request.movesBytes { return end(request, .failed(reason)) }
    end(request, .value(Int(result)))
  }

  /// Answers that are no answer: true where it was sent again.
  private func retry(_ request: Request, _ result: Int32) -> Bool {
    switch result {
    case -EINTR where !request.isClose:
      again(request)
    case -EAGAIN where request.waitsForOthers || request.isStream || request.sends:
      // A descriptor that does not block: wait until it would not.
      request.isPolling = true
      var op = opp_ring_op()
      op.code = UInt8(opp_ring_code.OPP_RING_POLL.rawValue)
      op.fd = request.op.fd
      op.flags = request.pollEvents
      begin(op, request)
    case -EAGAIN where request.retries < 16:
      request.retries += 1
      again(request)
    case -EPERM where usesPriorities && request.device == .storage && request.movesBytes:
      // Real-time I/O priority is not for everybody. Once is enough.
      usesPriorities = false
      again(request)
    default: return false
    }
    return true
  }

  private func again(_ request: Request) {
    let sentAt = request.sentAt
    send(request)
    request.sentAt = sentAt
  }

  /// Tells the arbiter, and counts.
  private func account(_ request: Request, _ result: Int32, _ app: OwnedApp?) {
    guard let grant = request.grant else { return }
    let device = request.device.rawValue
    arbiters[device].finished(grant, sentAt: request.sentAt, submittedAt: request.submittedAt, now: now)
    let moved = request.movesBytes ? UInt64(max(0, result)) : grant.cost.bytes
    if moved < grant.cost.bytes { arbiters[device].refund(grant.cost.bytes - moved, of: grant.ioClass) }
    guard let app else { return }
    app.counters[grant.ioClass.index].inDevice.record(now - request.sentAt)
    guard request.movesBytes else { return }
    if request.writes {
      app.counters[grant.ioClass.index].bytesWritten += moved
    } else {
      app.counters[grant.ioClass.index].bytesRead += moved
    }
  }

  /// Whether a transfer that moved `moved` bytes this time is to go on.
  private func goesOn(_ request: Request, _ moved: Int) -> Bool {
    guard request.done < request.total, moved > 0 else { return false }
    return request.wantsAll || (moved == request.piece && !request.waitsForOthers)
  }

  /// A request whose caller has its answer already.
  private func release(_ request: Request, _ result: Int32) {
    account(request, result, owned(request.app))
    request.phase = .ended
    request.releaseBuffers()
    request.grant = nil
    if request.opensDescriptor, result >= 0 { close(result) }
    if let app = owned(request.app) { becameQuieter(app) }
  }

  // MARK: Before its time

  /// Ends a request for a reason of ours: at once where it is queued. In the kernel it is cancelled; at a deadline or a
  /// termination the caller does not wait for that.
  func end(_ request: Request, early reason: IOError.Code) {
    switch request.phase {
    case .new: request.reason = request.reason ?? reason  // its message is still on the way
    case .queued(let ticket):
      _ = arbiters[request.device.rawValue].cancel(ticket)
      end(request, .failed(reason))
    case .ended: break
    case .inFlight:
      guard !request.isDetached else { return }
      request.reason = request.reason ?? reason
      cancelInKernel(request)
      if reason == .cancelled { return }
      request.isDetached = true
      deliver(request, .failed(reason))
    }
  }

  // MARK: Out

  private func end(_ request: Request, _ outcome: Request.Outcome) {
    request.phase = .ended
    request.grant = nil
    request.releaseBuffers()
    deliver(request, outcome)
    if let app = owned(request.app) { becameQuieter(app) }
  }

  /// Gives the caller its answer, or keeps it while the app is suspended.
  private func deliver(_ request: Request, _ outcome: Request.Outcome) {
    request.outcome = outcome
    request.onEnd?(self, outcome)
    request.onEnd = nil
    guard let app = owned(request.app) else { return answer(request) }
    count(outcome, ioClass(of: app, request.device), app)
    if case .value(let value) = outcome, request.opensDescriptor {
      adopt(Int32(value), isSocket: request.code == .OPP_RING_ACCEPT, by: app)
    }
    guard app.state == .suspended, !app.isTerminated else { return answer(request) }
    app.held.append(request)
    if app.held.count == 1, configuration.heldCompletions == .report { configuration.onHeldCompletion?(app.name) }
  }

  /// At the end of the turn: see ``answers``.
  func answer(_ request: Request) {
    if let continuation = request.takeAnswer() { answers.append(continuation) }
  }

  private func count(_ outcome: Request.Outcome, _ ioClass: IOClass, _ app: OwnedApp) {
    switch outcome {
    case .value, .pending: app.counters[ioClass.index].completed += 1
    case .failed(.cancelled), .failed(.deadlineExceeded), .failed(.terminated):
      app.counters[ioClass.index].cancelled += 1
    case .failed: app.counters[ioClass.index].failed += 1
    }
  }

  // MARK: Small answers

  func owned(_ app: AppIO) -> OwnedApp? { apps.indices.contains(app.slot) ? apps[app.slot] : nil }

  func policy(of device: Device) -> DevicePolicy {
    device == .network ? configuration.network : configuration.storage
  }

  func ioClass(of app: OwnedApp, _ device: Device) -> IOClass { policy(of: device).ioClass(of: app.runningState) }
}

extension Request.Phase {
  var isInFlight: Bool { if case .inFlight = self { true } else { false } }
}
