internal import COpportune

/// How requests end: `end` is the only way out.
extension Reactor {
  // MARK: Before its time

  /// Ends a request for a reason of ours: at once where it is queued. In the kernel it is cancelled; at a deadline or a
  /// termination the caller does not wait for that, unless its memory is lent; nor does it ever where a thread of the pool
  /// waits in an open, which nothing but its other end brings back.
  func end(_ request: Request, early reason: IOError.Code) {
    if request.isClose, reason == .cancelled { return }  // what is open must not stay so
    switch request.phase {
    case .new: request.reason = request.reason ?? reason  // its message is still on the way
    case .queued(let ticket):
      _ = schedulers[request.device.rawValue].cancel(ticket)
      queuedOnDescriptors.remove(request)
      end(request, .failed(reason))
    case .parked:
      owned(request.app)?.parked.removeAll { $0 === request }
      end(request, .failed(reason))
    case .ended: discard(request)  // this message may be the last to hold it
    case .inFlight:
      guard !request.isDetached else { return }
      request.reason = request.reason ?? reason
      cancelInKernel(request)
      request.isLost = request.openClass != nil && can.backend == .OPP_RING_THREADS
      if !request.isLost, reason == .cancelled || request.lendsMemory { return }
      if request.isLost { lostOpens += 1 }
      request.isDetached = true
      deliver(request, .failed(reason))
    }
  }

  // MARK: Out

  func end(_ request: Request, _ outcome: Request.Outcome) {
    request.phase = .ended
    request.grant = nil
    isAwakeNoMore(request)
    request.giveBackBuffers()  // the caller's thread frees them, with the request
    deliver(request, outcome)
    if let app = owned(request.app) { becameQuieter(app) }
  }

  /// Gives the caller its answer, or keeps it while the app is suspended.
  func deliver(_ request: Request, _ outcome: Request.Outcome) {
    request.outcome = outcome
    request.timer?.request = nil
    guard let app = follow(request.app) else { return answer(request) }
    count(outcome, ioClass(of: app, request.device), app)
    if case .value(let value) = outcome, request.opensDescriptor {
      adopt(Int32(value), isSocket: request.code == .OPP_RING_ACCEPT, by: app)
    }
    if request.code == .OPP_RING_CONNECT { moderate(request.op.fd, of: app) }
    guard app.state == .suspended, !app.isTerminated else { return answer(request) }
    app.held.append(request)
    if app.held.count == 1 { reportHeld(app) }
  }

  /// At the end of the turn: see ``answers``.
  func answer(_ request: Request) {
    guard let caller = request.takeAnswer() else { return }
    let index = owned(request.app).map { ioClass(of: $0, request.device).index } ?? 0
    answers[index].append(caller)
  }

  private func count(_ outcome: Request.Outcome, _ ioClass: IOClass, _ app: AppEntry) {
    switch outcome {
    case .value, .pending: app.counters[ioClass.index].completed += 1
    case .failed(.cancelled), .failed(.deadlineExceeded), .failed(.terminated):
      app.counters[ioClass.index].cancelled += 1
    case .failed: app.counters[ioClass.index].failed += 1
    }
  }
}
