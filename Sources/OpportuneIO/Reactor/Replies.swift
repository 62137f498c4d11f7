/// Answers to callers, delivered at the end of a turn of the reactor.
///
/// Callers are resumed after the reactor has released its references to their requests, so that the callers
/// free them. Freeing memory of a background thread may need an allocator lock which that thread holds while
/// the kernel has stopped it; the reactor must not wait for that (law 1). For the same reason handled
/// messages are freed on another thread.
///
/// Invariants:
///  - A caller is resumed once.
///  - Within a turn foreground callers are resumed first, since each resumption may wake a thread.
///  - A held request belongs to a suspended app; its caller is resumed after the app is.
///
/// Reactor's thread only.
final class Replies {
  private let queues: DeviceQueues
  private let closer: DescriptorCloser
  private let sockets: SocketModerator
  private let watched: WatchedDescriptors
  /// Callers to resume, by class.
  private var callers: [[Request.Caller]] = [[], []]
  private var discarded: [Unmanaged<ReactorMessage>] = []
  /// Called with an app's name when the first of its answers is held; may be nil.
  private let reportHeld: (@Sendable (String) -> Void)?

  init(
    _ configuration: IOConfiguration, _ queues: DeviceQueues, _ closer: DescriptorCloser,
    _ sockets: SocketModerator, _ watched: WatchedDescriptors
  ) {
    (self.queues, self.closer, self.sockets, self.watched) = (queues, closer, sockets, watched)
    reportHeld = configuration.heldCompletions == .report ? configuration.onHeldCompletion : nil
  }

  /// Gives the caller its answer, or keeps it while the app is suspended.
  ///
  /// - Precondition: the reactor has just looked at the app.
  func deliver(_ request: Request, _ outcome: Request.Outcome) {
    let app = request.app
    request.setOutcome(outcome)
    app.countEnd(outcome, as: queues.ioClass(of: request))
    if case .value(let value) = outcome, request.opensDescriptor {
      adopt(Int32(value), isSocket: !request.call.isOpen, by: app)
    }
    if request.call.code == .OPP_RING_CONNECT { sockets.moderate(request.call.op.fd, of: app) }
    if app.state == .suspended, !app.isTerminated { hold(request) } else { answer(request) }
  }

  /// Has the caller of a receive that has not ended try again; not before its app is resumed.
  ///
  /// - Precondition: as of ``deliver(_:_:)``.
  func deliverAgain(_ request: Request) {
    if request.app.state == .suspended, !request.app.isTerminated { hold(request) } else { answer(request) }
  }

  /// Resumes the request's caller at the end of the turn.
  private func answer(_ request: Request) {
    let ioClass = queues.ioClass(of: request)
    if let caller = request.takeCaller() { callers[ioClass.index].append(caller) }
  }

  /// Keeps the answer until the app is resumed.
  private func hold(_ request: Request) {
    let app = request.app
    app.hold(request)
    if app.held.count == 1 { report(app) }
  }

  /// The app is resumed.
  func answerHeld(of app: AppEntry) {
    for request in app.takeHeld() { answer(request) }
  }

  /// The app ends. Whoever waits for a descriptor gets none any more.
  func answerHeldAtEnd(of app: AppEntry) {
    let held = app.takeHeld()
    for request in held where request.opensDescriptor { request.setOutcome(.failed(.terminated)) }
    for request in held { answer(request) }
  }

  /// Reports the app, if an answer of it is held.
  func report(_ app: AppEntry) {
    if let reportHeld, !app.held.isEmpty, !app.isTerminated { reportHeld(app.name) }
  }

  // MARK: What was opened

  /// From now on the descriptor is the app's, and is closed with it. Where that has ended already, it is
  /// closed now.
  func adopt(_ descriptor: Int32, isSocket: Bool, by app: AppEntry) {
    guard !app.isTerminated else {
      return closer.close(descriptor, as: queues.ioClass(of: app, on: .network)) {}
    }
    app.descriptors.add(descriptor, isSocket: isSocket)
    // One of this number that was closed behind the broker's back has left its watch.
    for wait in watched.remove(descriptor) { wait.becameReady() }
    watched.add(descriptor, of: app)
    sockets.moderate(descriptor, of: app)
  }

  /// The app's state has changed, and with it how its sockets are to be.
  func stateChanged(of app: AppEntry) {
    sockets.moderateAll(of: app)
    // In the background its receives wait in the reactor, and what comes for them is to wake no worker of the
    // foreground. (docs/decisions/0029)
    guard app.state(on: .network) == .background else { return }
    for descriptor in app.descriptors.numbers {
      for wait in watched.remove(descriptor) { wait.becameReady() }
    }
  }

  // MARK: The end of a turn

  /// Frees the message on another thread.
  func discard(_ message: ReactorMessage) { discarded.append(.passRetained(message)) }

  func send() {
    for index in callers.indices {
      for caller in callers[index] { caller.resume() }
      callers[index].removeAll(keepingCapacity: true)
    }
    guard !discarded.isEmpty else { return }
    nonisolated(unsafe) let list = discarded  // no other thread has these references
    discarded = []
    Task.detached { for message in list { message.release() } }
  }
}
