internal import COpportune
import Glibc
import SystemPackage

/// The way of a request through the reactor thread. Each step is taken once; `end` is the only way out.
extension Reactor {
  // MARK: In

  func submit(_ request: Request) {
    let known = follow(request.app)
    if let known { known.counters[ioClass(of: known, request.device).index].submitted += 1 }
    guard let app = known, !app.isTerminated, !refuses else {
      return end(request, .failed(refuses ? .unavailable : .terminated))
    }
    lastRequest += 1
    request.number = lastRequest
    if let reason = request.reason { return end(request, .failed(reason)) }
    if request.deadline <= now { return end(request, .failed(.deadlineExceeded)) }
    if request.deadline != .max {
      let timer = Deadline(request)
      request.timer = timer
      setTimer(.deadline(timer), at: request.deadline)
    }
    enqueue(request)
  }

  /// Into the scheduler's queue; with the ticket of a piece before, back to its place there.
  func enqueue(_ request: Request, at ticket: IOScheduler<Request>.Ticket? = nil) {
    guard let app = owned(request.app) else { return end(request, .failed(.terminated)) }
    request.queuedAt = now
    guard closing[request.op.fd] == nil else { return end(request, .failed(.system(.badFileDescriptor))) }
    guard request.device != .none else {
      guard app.state != .suspended else { return app.park(request) }
      guard !isOfClosed(request) else { return end(request, .failed(.system(.canceled))) }
      return request.isClose ? close(request, of: app) : send(request)
    }
    // What background pays, as whose it goes is not known before its turn: for a piece, never for the whole of it.
    let chunk = chunk(of: request)
    let datagram = request.writes ? request.datagramCount : min(request.datagramCount, chunk)
    let bytes = UInt64(max(nextPiece(of: request, chunk), datagram))
    let cost = IOScheduler<Request>.Cost(bytes: bytes, occupies: !request.waitsForOthers)
    let queued = schedulers[request.device.rawValue].submit(request, app: app.slot, cost: cost, at: ticket)
    guard let queued else { return end(request, .failed(.terminated)) }
    request.phase = .queued(queued)
    queuedOnDescriptors.add(request)
  }

  /// Nobody knows how much a receive will bring: so little is paid for beforehand that a few bytes do not wait for the tokens
  /// of a large buffer. What else a datagram brings is paid for afterwards.
  private func chunk(of request: Request) -> Int {
    let policy = policy(of: request.device)
    guard request.waitsForOthers, !request.writes, let bytes = policy.bytes else { return policy.chunk }
    return min(policy.chunk, max(1, bytes.burst / 2))
  }

  private func nextPiece(of request: Request, _ chunk: Int) -> Int {
    min(request.total - request.done, chunk, 1 << 30)
  }

  // MARK: To the kernel

  func dispatchAll() {
    repeat {
      wakeOpens()
      for device in schedulers.indices {
        while let grant = schedulers[device].next(now: now) { dispatch(grant, device) }
      }
    } while mayWakeOpens
  }

  private func dispatch(_ grant: IOScheduler<Request>.Grant, _ device: Int) {
    let request = grant.item
    queuedOnDescriptors.remove(request)
    // Suspended since: it must not reach the kernel.
    if follow(request.app)?.state == .suspended {
      schedulers[device].abandon(grant)
      return enqueue(request, at: grant.ticket)
    }
    guard !isOfClosed(request) else {
      schedulers[device].abandon(grant)
      return end(request, .failed(.system(.canceled)))
    }
    guard takesThread(request, grant.ioClass) else {
      request.ticket = grant.ticket
      return schedulers[device].abandon(grant)
    }
    request.grant = grant
    request.piece = nextPiece(of: request, grant.ioClass == .background ? chunk(of: request) : .max)
    if let app = owned(request.app) {
      request.queuedAt = max(request.queuedAt, app.resumedAt)
      app.counters[grant.ioClass.index].waiting.record(now - request.queuedAt)
    }
    send(request)
  }

  func send(_ request: Request) {
    request.phase = .inFlight
    request.sentAt = now
    var op = request.op
    if request.movesBytes {
      if !request.isStream { op.offset += UInt64(request.done) }
      if request.vectorCount > 0 {
        (op.address, op.length) = request.vectorsOfPiece()
      } else {
        op.address += UInt64(request.done)
        op.length = UInt32(request.piece)
        if let registered { request.useRegistration(in: registered, of: &op) }
      }
    }
    if request.looks == .needed { return begin(request.look(), request) }
    op.priority = priority(of: request, request.grant?.ioClass)
    request.carriesPriority = op.priority != 0
    // Where the socket takes no more, the request waits in a poll, outside of the device's queue: else a few peers that
    // do not read would hold up everybody's sends, and their own app's end.
    if request.sends { op.flags |= UInt32(MSG_DONTWAIT) }
    if request.code == .OPP_RING_SEND, let least = configuration.zeroCopyFrom, can.zero_copy, request.piece >= least,
      !request.needsCopy
    {
      op.code = UInt8(opp_ring_code.OPP_RING_SEND_ZERO_COPY.rawValue)
    }
    begin(op, request)
  }

  private func begin(_ op: opp_ring_op, _ request: Request) {
    var op = op
    op.tag = UInt64(UInt(bitPattern: Unmanaged<Message>.passRetained(request).toOpaque()))
    let app = owned(request.app)
    app?.add(request)
    onDescriptors.add(request)
    guard request.isClose else { return prepare(op) }
    let ioClass = app.map { self.ioClass(of: $0, .network) } ?? .background
    request.closeClass = ioClass
    prepareClose(op, ioClass)
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

  // MARK: Back

  /// The kernel has let go of the request.
  func finished(_ request: Request, _ result: Int32) {
    let app = owned(request.app)
    app?.remove(request)
    onDescriptors.remove(request)
    closeIfQuiet(request.op.fd)
    givesThreadBack(request)
    let result = request.firstResult ?? result
    request.firstResult = nil
    if request.isDetached { return release(request, result) }
    if request.looks == .sent { return looked(request, result) }
    if request.isPolling {
      request.isPolling = false
      if let reason = request.reason { return end(request, .failed(reason)) }
      return result < 0
        ? end(request, .failed(.system(Errno(rawValue: -result)))) : enqueue(request, at: request.ticket)
    }
    if request.reason == nil, retry(request, result) { return }
    account(request, result, app)
    guard result >= 0 || request.reason != nil else { return end(request, .failed(.system(Errno(rawValue: -result)))) }
    guard request.movesBytes else {
      return end(request, result < 0 ? .failed(request.reason ?? .cancelled) : .value(Int(result)))
    }
    request.done += Int(max(0, result))
    if result >= 0, !goesOn(request, Int(result)) { return end(request, .value(request.done)) }
    if let reason = request.reason { return end(request, .failed(reason)) }
    enqueue(request, at: request.ticket)
  }

  /// A zero-copy send that the kernel has accepted occupies the device no longer, however late its peer reads.
  func giveUpPlace(_ request: Request, _ result: Int32) {
    if result >= 0 { account(request, result, owned(request.app)) }
  }

  /// Answers that are no answer: true where it was sent again.
  private func retry(_ request: Request, _ result: Int32) -> Bool {
    switch result {
    case -EINTR where !request.isClose:
      again(request)
    case -EAGAIN where request.device == .network || (request.isOfStream && request.movesBytes):
      // Wait until it would not have to, without a place in the device's queue.
      if let grant = request.grant {
        request.ticket = grant.ticket
        request.grant = nil
        schedulers[request.device.rawValue].abandon(grant)
      }
      request.isPolling = true
      var op = opp_ring_op()
      op.code = UInt8(opp_ring_code.OPP_RING_POLL.rawValue)
      op.fd = request.op.fd
      op.flags = request.pollEvents
      begin(op, request)
    case -EAGAIN where request.retries < 16:
      request.retries += 1
      again(request)
    case -EOPNOTSUPP where request.code == .OPP_RING_SEND && can.zero_copy && !request.needsCopy:
      // Not by every kind of socket.
      request.needsCopy = true
      again(request)
    case -EPERM where request.carriesPriority:
      // Real-time I/O priority is not for everybody. Once is enough.
      usesPriorities = false
      request.hasLostPriority = true
      again(request)
    case -EPERM where request.hasLostPriority:
      usesPriorities = true  // it was the file
      return false
    default: return false
    }
    return true
  }

  func again(_ request: Request) {
    if let grant = request.grant, follow(request.app)?.state == .suspended {
      request.grant = nil
      schedulers[request.device.rawValue].abandon(grant)
      return enqueue(request, at: grant.ticket)
    }
    let sentAt = request.sentAt
    send(request)
    request.sentAt = sentAt
  }

  /// Tells the scheduler that the request has no place in the device any more, and counts: once for each piece.
  private func account(_ request: Request, _ result: Int32, _ app: AppEntry?) {
    guard let grant = request.grant else { return }
    request.grant = nil
    request.ticket = grant.ticket
    let device = request.device.rawValue
    schedulers[device].finished(grant, sentAt: request.sentAt, queuedAt: request.queuedAt, now: now)
    let isTransfer = request.movesBytes || request.datagramCount > 0
    let moved = isTransfer ? UInt64(max(0, result)) : grant.cost.bytes
    schedulers[device].settle(grant, moved: moved)
    guard let app else { return }
    app.counters[grant.ioClass.index].inDevice.record(now - request.sentAt)
    guard isTransfer else { return }
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
    if request.isLost { lostOpens -= 1 }
    request.phase = .ended
    request.giveBackBuffers()
    discard(request)
    if request.opensDescriptor, result >= 0 { close(result, .background) {} }
    if let app = owned(request.app) { becameQuieter(app) }
  }

  // MARK: Small answers

  func owned(_ app: AppIO) -> AppEntry? { apps.indices.contains(app.slot) ? apps[app.slot] : nil }

  func policy(of device: Device) -> DevicePolicy {
    device == .network ? configuration.network : configuration.storage
  }

  func ioClass(of app: AppEntry, _ device: Device) -> IOClass {
    policy(of: device).ioClass(of: app.runningState(on: device))
  }
}

extension Request.Phase {
  var isInFlight: Bool { if case .inFlight = self { true } else { false } }
}
