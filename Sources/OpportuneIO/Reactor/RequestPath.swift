internal import COpportune
import SystemPackage

/// A request's path through the reactor: in (`submit`), to the kernel (`dispatchAll`, `send`), back
/// (`completed`), and out (`end`, `deliver`). Each step is taken once for each piece; `end` is the only exit.
///
/// Invariants:
///  - A request goes to the kernel only if its app was not suspended at the reactor's last look, which is
///    immediately before.
///  - A completion that arrives while its app is suspended is held: the reactor looks at the app before it
///    answers.
///  - A request that began before a close of its descriptor never reaches the next file of that number.
///
/// Reactor's thread only. It calls the parts below it; the only call upwards is ``appIsQuieter``.
final class RequestPath {
  private let clock: ReactorClock
  private let timers: Timers
  private let operations: KernelOperations
  private let submissions: SubmissionQueue
  private let queues: DeviceQueues
  private let opens: OpenLimiter
  private let closer: DescriptorCloser
  private let replies: Replies
  private let watched: WatchedDescriptors
  /// Whether new requests are refused because the reactor is ending.
  private(set) var isEnding = false

  /// Called whenever a request of a terminated app ends.
  var appIsQuieter: (AppEntry) -> Void = { _ in }

  init(
    _ clock: ReactorClock, _ timers: Timers, _ operations: KernelOperations, _ submissions: SubmissionQueue,
    _ queues: DeviceQueues, _ opens: OpenLimiter, _ closer: DescriptorCloser, _ replies: Replies,
    _ watched: WatchedDescriptors
  ) {
    self.clock = clock
    self.timers = timers
    self.operations = operations
    self.submissions = submissions
    self.queues = queues
    self.opens = opens
    self.closer = closer
    self.replies = replies
    self.watched = watched
  }

  func refuseFromNowOn() { isEnding = true }

  // MARK: In

  /// Handles a posted request.
  func submit(_ request: Request) {
    let app = request.app
    follow(app)
    app.countSubmitted(as: queues.ioClass(of: request))
    guard !app.isTerminated, !isEnding else {
      return end(request, .failed(isEnding ? .unavailable : .terminated))
    }
    if let reason = request.endsBecause { return end(request, .failed(reason)) }
    if request.call.deadline <= clock.now { return end(request, .failed(.deadlineExceeded)) }
    if request.call.deadline != .max {
      let deadline = Deadline(request)
      request.deadline = deadline
      timers.set(.deadline(deadline), at: request.call.deadline)
    }
    // The socket's next receive waits with the workers: its app was in the background before.
    if request.call.code == .OPP_RING_RECEIVE { watched.add(request.call.op.fd, of: app) }
    enqueue(request)
  }

  /// Queues a request in its scheduler; the rest of a request keeps its former position.
  private func enqueue(_ request: Request) {
    let app = request.app
    request.queuedAt = clock.now
    guard !closer.isClosing(request.call.op.fd) else {
      // What began before the close, such as a call that was tried on its thread until now, ends like what is
      // in flight there.
      return end(
        request, .failed(.system(closer.hasClosed(since: request.call) ? .canceled : .badFileDescriptor)))
    }
    guard request.call.device != .none else {
      guard app.state != .suspended else { return park(request) }
      guard !closer.hasClosed(since: request.call) else { return end(request, .failed(.system(.canceled))) }
      return request.call.isClose ? close(request) : send(request, nil)
    }
    if !queues.submit(request) { end(request, .failed(.terminated)) }
  }

  /// Somebody of the foreground has begun to wait for tasks that have asked for something.
  func lookAtDonations() {
    opens.appChanged()
    queues.lookAtDonations()
  }

  private func park(_ request: Request) {
    request.toParked()
    request.app.park(request)
  }

  // MARK: To the kernel

  /// Sends all requests that may go now.
  func dispatchAll() {
    repeat {
      for request in opens.wake(classOf: queues.classOfOpen) { enqueue(request) }
      for device in Device.queued {
        while let grant = queues.next(device, now: clock.now) { dispatch(grant) }
      }
    } while opens.mayWake
  }

  private func dispatch(_ grant: Request.Grant) {
    let (request, app) = (grant.item, grant.item.app)
    follow(app)
    // Suspended meanwhile: the request must not reach the kernel.
    guard app.state != .suspended else {
      queues.abandon(grant)
      return enqueue(request)
    }
    guard !closer.hasClosed(since: request.call) else {
      queues.abandon(grant)
      return end(request, .failed(.system(.canceled)))
    }
    guard !request.isOpenThatWaits || opens.take(for: request, as: grant.ioClass) else {
      queues.abandon(grant)
      request.toParked()
      return opens.wait(request)
    }
    request.piece = queues.piece(of: request, as: grant.ioClass)
    request.queuedAt = max(request.queuedAt, app.resumedAt)
    app.countSent(as: grant.ioClass, waiting: clock.now - request.queuedAt)
    send(request, grant)
  }

  /// Sends the operation to the kernel; for an open of unknown kind, first a stat.
  private func send(_ request: Request, _ grant: Request.Grant?) {
    request.sentAt = clock.now
    if let memory = request.file.statBuffer {
      return begin(request.call.stat(into: memory), request, .stat(memory), grant)
    }
    begin(operations.operation(of: request, as: grant?.ioClass), request, .operation, grant)
  }

  private func begin(
    _ op: opp_ring_op, _ request: Request, _ step: Request.Flight.Step, _ grant: Request.Grant?
  ) {
    var op = op
    op.tag = request.retainedTag()
    var limiter = Request.Flight.Limiter.none
    if request.call.isClose {
      limiter = .close(CloseQueue.Kind(op.fd, queues.ioClass(of: request.app, on: .network)))
    } else if request.isOpenThatWaits, let grant {
      limiter = .open(grant.ioClass)
    }
    request.toInFlight(step, grant, limiter)
    request.app.add(request)
    closer.add(request)
    if case .close(let kind) = limiter { closer.submit(op, as: kind) } else { submissions.submit(op) }
  }

  // MARK: Back

  /// The kernel has accepted a zero-copy send. The send no longer occupies the device, however late its peer
  /// reads.
  func accepted(_ request: Request, _ result: Int32) {
    account(request, request.toAccepted(result), result)
    letGo(request)
    closer.closeIfQuiet(request.call.op.fd)
    if request.app.isTerminated { appIsQuieter(request.app) }
  }

  /// The kernel has ended the request.
  func completed(_ request: Request, _ result: Int32) {
    guard let flight = request.flight else {
      return assertionFailure("a completion of what was not in flight")
    }
    switch flight.limiter {
    case .none: break
    case .open(let ioClass): opens.giveBack(ioClass)
    case .close(let kind): closer.closeCompleted(as: kind)
    }
    request.app.remove(request)
    closer.remove(request)
    var result = result
    if case .accepted(let first) = flight.step { result = first }
    switch flight.ending {
    case .answered: release(request, flight, result)
    case .lost:
      opens.lostEnded()
      release(request, flight, result)
    case .asked(let reason): operationCompleted(request, flight, result, because: reason)
    case .none:
      switch flight.step {
      case .stat(let memory): statCompleted(request, flight, result, memory)
      case .poll: result < 0 ? fail(request, result) : enqueue(request)
      case .operation, .accepted:
        answered(request, flight, result)
      }
    }
  }

  /// The call itself has completed; or any step has, of a request that we end early.
  private func operationCompleted(
    _ request: Request, _ flight: Request.Flight, _ result: Int32, because reason: IOError.Code?
  ) {
    if let reason {
      switch flight.step {
      case .stat:
        if let grant = flight.grant { queues.abandon(grant) }
        return end(request, .failed(reason))
      case .poll: return end(request, .failed(reason))
      case .operation, .accepted: break
      }
    }
    account(request, flight.grant, result)
    guard result >= 0 || reason != nil else { return fail(request, result) }
    guard request.call.movesBytes else {
      return end(request, result < 0 ? .failed(reason ?? .cancelled) : .value(Int(result)))
    }
    request.moved(Int(max(0, result)))
    if result >= 0, !request.goesOn(afterMoving: Int(result)) { return end(request, .value(request.done)) }
    if let reason { return end(request, .failed(reason)) }
    enqueue(request)
  }

  private func fail(_ request: Request, _ result: Int32) {
    end(request, .failed(.system(Errno(rawValue: -result))))
  }

  /// The stat before an open has completed; the open continues.
  private func statCompleted(
    _ request: Request, _ flight: Request.Flight, _ result: Int32, _ memory: UnsafeMutableRawPointer
  ) {
    request.learnFile(result >= 0 ? FileStatus.kind(memory) : nil)
    guard request.isOpenThatWaits, let grant = flight.grant else { return again(request, flight.grant) }
    queues.abandon(grant)  // it continues without a device slot
    enqueue(request)
  }

  private func answered(_ request: Request, _ flight: Request.Flight, _ result: Int32) {
    switch operations.verdict(on: result, of: request) {
    case .final: operationCompleted(request, flight, result, because: nil)
    case .askAgain: again(request, flight.grant)
    case .wouldWait:
      if let grant = flight.grant { queues.abandon(grant) }  // without a place in the device
      begin(request.call.poll, request, .poll, nil)
    }
  }

  /// Repeats the operation, with the same device slot.
  private func again(_ request: Request, _ grant: Request.Grant?) {
    if let grant {
      follow(request.app)
      // A blocking open has returned its thread.
      if request.app.state == .suspended || request.isOpenThatWaits {
        queues.abandon(grant)
        return enqueue(request)
      }
    }
    let sentAt = request.sentAt
    send(request, grant)
    request.sentAt = sentAt
  }

  /// Reports to the scheduler that a piece has left its device slot, and counts the piece.
  private func account(_ request: Request, _ grant: Request.Grant?, _ result: Int32) {
    guard let grant else { return }
    let isTransfer = request.call.movesBytes || request.call.datagramCount > 0
    let moved = isTransfer ? UInt64(max(0, result)) : grant.cost.bytes
    queues.pieceCompleted(grant, moved: moved, now: clock.now)
    request.app.countPiece(as: grant.ioClass, inDevice: clock.now - request.sentAt)
    if isTransfer { request.app.countMoved(moved, as: grant.ioClass, writes: request.call.writes) }
  }

  /// Ends a request whose caller has its answer already.
  private func release(_ request: Request, _ flight: Request.Flight, _ result: Int32) {
    account(request, flight.grant, result)
    let closes = request.opensDescriptor && result >= 0
    request.toEnded()
    request.call.giveBackBuffers()
    replies.discard(request)
    if closes { closer.close(result, as: .background) {} }
    if request.app.isTerminated { appIsQuieter(request.app) }
  }

  // MARK: Early ends

  /// Ends a request early for `reason`. A queued request ends at once; one in the kernel is cancelled there.
  /// At a deadline or a termination the caller gets its answer without waiting for the kernel, unless its
  /// memory is borrowed. The same holds for any reason if a thread of the pool is blocked in an open, which
  /// only the other end can complete.
  func end(_ request: Request, early reason: IOError.Code) {
    if request.call.isClose, reason == .cancelled { return }  // the descriptor must not stay open
    switch request.phase {
    case .posted: request.toPostedButEnding(because: reason)
    case .queued:
      queues.cancel(request)
      end(request, .failed(reason))
    case .parked:
      request.app.unpark(request)
      end(request, .failed(reason))
    case .closing: return  // it continues, and ends soon
    case .inFlight(let flight): end(request, flight, early: reason)
    case .ended: replies.discard(request)  // this message may hold the last reference
    }
  }

  private func end(_ request: Request, _ flight: Request.Flight, early reason: IOError.Code) {
    guard !request.isDetached else { return }
    request.toEnding(because: reason)
    submissions.cancel(request)
    var isLost = false
    if case .open = flight.limiter { isLost = opens.mayLose }
    if !isLost, reason == .cancelled || request.borrowsMemory { return }
    if isLost { opens.becameLost() }
    request.toDetached(isLost: isLost)
    deliver(request, .failed(reason))
  }

  /// Answers a zero-copy send that the kernel has accepted, if its app ends or its descriptor is to be
  /// closed. The buffer stays in use until the peer has received everything, which may be never, so nothing
  /// waits for that.
  private func letGo(_ request: Request) {
    guard case .inFlight(let flight) = request.phase, case .accepted(let moved) = flight.step,
      !request.isDetached,
      request.app.isTerminated || closer.isClosing(request.call.op.fd)
    else { return }
    let reason = request.endsBecause ?? .terminated
    request.toDetached(isLost: false)
    deliver(request, Int(moved) == request.left ? .value(request.call.total) : .failed(reason))
  }

  /// Ends the queued and parked requests of a terminated app, and those in flight that only receive data.
  /// Writes continue, and keep their buffers. (R-FTS-07)
  func endRequests(of app: AppEntry) {
    assert(app.isTerminated)
    for request in queues.remove(app) { end(request, .failed(.terminated)) }
    for request in app.takeParked() + opens.removeAll(of: app) { end(request, .failed(.terminated)) }
    for request in app.inFlight where !request.isDetached {
      if request.isDroppedAtTermination {
        end(request, early: .terminated)
      } else {
        request.toTerminating()
        letGo(request)
      }
    }
    ReceiveWait.claimAll(of: app) { end($0, because: .terminated) }
    replies.answerHeldAtEnd(of: app)
  }

  // MARK: Closes

  /// Closes a descriptor for its app, once nothing is in flight on it and no inline call is inside its gate.
  func close(_ request: Request) {
    let descriptor = request.call.op.fd
    // Not a descriptor. Requests with paths have AT_FDCWD there.
    guard descriptor >= 0 else { return send(request, nil) }
    // Requests that other apps have queued end when their turn comes.
    for queued in queues.requests(on: descriptor).reversed() where queued.app === request.app {
      end(queued, early: .system(.canceled))
    }
    request.toClosing()
    close(descriptor, of: request.app) { [unowned self] in send(request, nil) }
  }

  /// Cancels what is in flight on a descriptor. Calls `send`, which closes it, when the kernel has ended all
  /// of that.
  func close(_ descriptor: Int32, of app: AppEntry, send: @escaping () -> Void) {
    closer.begin(descriptor, of: app, send: send)
    for wait in watched.remove(descriptor) { end(wait, because: .system(.canceled)) }
    for request in closer.requests(on: descriptor) {
      if request.isAccepted {
        request.toEnding(because: .system(.canceled))
        letGo(request)
      } else {
        request.toEnding(because: .system(.canceled))
        // Cancelled one by one: a cancellation by descriptor would also end requests on its duplicates.
        submissions.cancel(request)
      }
    }
    closer.closeIfQuiet(descriptor)
  }

  // MARK: Receives that wait with the workers

  /// Ends a receive that this thread has claimed.
  private func end(_ wait: ReceiveWait, because reason: IOError.Code) {
    let request = wait.toRequest()
    request.app.countSubmitted(as: queues.ioClass(of: request))
    end(request, .failed(reason))
  }

  /// Something has come for a receive of a suspended app, claimed by the poster: held like a completion.
  func hold(_ wait: ReceiveWait) {
    let request = wait.toRequest()
    request.toEnded()
    follow(request.app)
    replies.deliverAgain(request)
  }

  // MARK: Out

  private func end(_ request: Request, _ outcome: Request.Outcome) {
    request.toEnded()
    if request.isOpenThatWaits { opens.forget(request) }
    request.call.giveBackBuffers()  // the caller's thread frees them, with the request
    deliver(request, outcome)
    if request.app.isTerminated { appIsQuieter(request.app) }
  }

  /// Delivers the answer to the caller, or holds it while the app is suspended.
  private func deliver(_ request: Request, _ outcome: Request.Outcome) {
    follow(request.app)
    replies.deliver(request, outcome)
  }

  // MARK: App states

  /// Reads the app's current state and applies it: the only way in which a state reaches the reactor. Called
  /// on each notification of a change, and wherever the state decides about a request, which is often before
  /// the notification.
  ///
  /// Why no change is missed, on any processor:
  ///  - Each look is an acquiring load of the app's one state word, by this thread alone. So no look sees
  ///    less than the one before it.
  ///  - An event that followed the app's suspension, such as bytes that were written after it, reaches this
  ///    thread through the kernel. This thread sees the completion before it looks. So it sees the
  ///    suspension, and holds the completion.
  ///  - Each change is followed by a message, posted with release and fetched with acquire. The look on its
  ///    arrival sees that change or a later one. So the look of the last message sees the last state, and
  ///    answers what is held if the app runs.
  ///  - This one thread both holds and answers, so it need not look again. The only store-load pair is that
  ///    of posting and sleeping, in opp_ring_post().
  func follow(_ app: AppEntry) {
    switch app.refresh(at: clock.now) {
    case .none: return
    case .suspendedAgain:
      // The app may have been resumed in between, because of a report, and does not know what was reported.
      // So the watches report again.
      for watch in app.watches { watch.arm() }
      replies.report(app)
    case .state:
      opens.appChanged()
      queues.stateChanged(of: app)
      // Who has waited for its tasks while it was active raises them from now on.
      queues.lookAtDonations()
      replies.stateChanged(of: app)
      guard app.state != .suspended else {
        for watch in app.watches { watch.arm() }
        return
      }
      for watch in app.watches { watch.disarm() }
      replies.answerHeld(of: app)
      for request in app.takeParked() { enqueue(request) }
    }
  }
}
