internal import COpportune
import OpportuneScheduler
import SystemPackage

/// The I/O of one app: files and sockets, in the I/O class of the app's state.
///
/// All calls may be made from any thread. Each call ends exactly once: with its result, with an error of the
/// kernel, at its deadline, by cancellation of its task, or with the end of the app. On cancellation the
/// kernel is asked to cancel the request, and the call returns when the kernel has done so; a short read of a
/// foreground app, which waits for the device on the thread that asks for it, ends as the device answers.
///
/// Close descriptors with ``close(_:)``. When the app is terminated, the broker closes those that are still
/// open.
public final class AppIO: @unchecked Sendable {
  // Sendable: all members are constants except `observer`, which is set before the object is shared.
  /// The app's name, for logs and statistics.
  public let name: String
  let broker: IOBroker
  /// The reactor's record of this app.
  let entry: AppEntry
  private let isAttached: Bool
  private var observer: StateObserver?

  /// Makes the I/O of an app whose state the caller sets.
  init(_ broker: IOBroker, slot: Int, name: String, state: IOState) {
    self.name = name
    self.broker = broker
    isAttached = false
    entry = AppEntry(slot: slot, name: name, AppStateSource(state))
    register()
  }

  /// Makes the I/O of an app that follows a scheduler's app.
  init(_ broker: IOBroker, slot: Int, _ app: App, limits: (@Sendable () -> IOLimits?)?) {
    name = app.name
    self.broker = broker
    isAttached = true
    entry = AppEntry(slot: slot, name: app.name, AppStateSource(app, limits))
    register()
    let observer = StateObserver(entry, broker.reactor)
    self.observer = observer
    app.addObserver(observer)
    broker.reactor.stateChanged(of: entry)  // for changes before the observer was added
  }

  private func register() {
    reactor.post(Control(refused: { [entry] in _ = entry.inline.gate.close() }) { [entry] in $0.add(entry) })
  }

  // Requests retain the app, so there are none here.
  deinit {
    let (entry, broker) = (entry, broker)
    broker.reactor.post(
      Control {
        $0.forget(entry)
        broker.giveBack(entry.slot)
      })
  }

  var reactor: Reactor { broker.reactor }

  // MARK: State

  /// Observes changes of the scheduler's app. It has no weak reference to the ``AppIO``: an object that ever
  /// had one counts its references in a table beside it, several times as slow, and each call counts some.
  private final class StateObserver: AppObserver {
    private let entry: AppEntry
    private let reactor: Reactor

    init(_ entry: AppEntry, _ reactor: Reactor) { (self.entry, self.reactor) = (entry, reactor) }

    func appDidChange() { reactor.stateChanged(of: entry) }
  }

  /// The current state, which decides the class of the app's requests.
  public var state: IOState { entry.source.view.state }

  /// Sets the state of an app that is not attached to a scheduler's app; ignored for one that is.
  ///
  /// Suspension: after this call returns, no further request of the app goes to the kernel, and completions
  /// are held. A request that was being handed over, or done inline on a caller's thread, counts as in
  /// flight. Once a later ``IOBroker/statistics()`` shows nothing in flight, the kernel does nothing for the
  /// app until it is resumed.
  package func setState(_ state: IOState) {
    guard !isAttached, entry.source.set(state) else { return }
    reactor.stateChanged(of: entry)
  }

  /// Ends the app's I/O. (R-FTS-07)
  ///
  /// Queued requests, reads, receives, accepts and connections end with `terminated`. Writes and sends that
  /// the kernel has accepted run to their end. Then all descriptors that the broker made for the app are
  /// closed, and the call returns.
  public func terminate() async {
    await withUnsafeContinuation { continuation in
      reactor.post(
        Control(refused: { continuation.resume() }) { [self] in
          $0.termination.terminate(entry) { continuation.resume() }
        })
    }
  }

  // MARK: Calls

  func call(
    _ code: opp_ring_code, _ device: Device = .storage, _ descriptor: FileDescriptor? = nil
  ) -> IOCall {
    IOCall(self, code, on: device, descriptor: descriptor?.rawValue ?? -1)
  }

  /// Performs a call: inline if that needs no waiting, on the caller's worker if it waits for a short read of
  /// the device, where the workers wait if it is a receive of an active app without a limit, otherwise
  /// through the reactor.
  ///
  /// - Parameter limit: the time limit from now on; `nil` is none.
  @discardableResult
  func perform(_ call: IOCall, within limit: Duration?) async throws(IOError) -> Int {
    var call = call
    try begin(&call)
    var done = 0
    if limit != .zero {
      switch try tryInline(call) {
      case .whole(let moved): return moved
      case .part(let moved): done = moved
      }
      if limit == nil {
        switch try tryOnWorker(call, done: done) {
        case .whole(let moved): return moved
        case .part(let moved): done = moved
        }
        if call.mayWaitForReadiness {
          switch try await receiveOnWorker(call, done: done) {
          case .whole(let moved): return moved
          case .part(let moved): done = moved
          }
        }
      }
    }
    return try await carryOut(request(of: call, done: done, within: limit))
  }

  /// Before anything of a call is done: refuses it if the task was cancelled, and asks who waits for it.
  func begin(_ call: inout IOCall) throws(IOError) {
    if Task.isCancelled, !call.isClose {
      call.giveBackBuffers()
      throw call.error(.cancelled)
    }
    call.standing = standing(on: call.device)
  }

  /// The request of what is left of a call after `done` bytes.
  func request(of call: IOCall, done: Int, within limit: Duration?) -> Request {
    var call = call
    if let limit { call.setLimit(limit) }
    // An app that is active may not be when its request's turn comes.
    if call.standing == nil { call.standing = standingOfCaller() }
    call.lookAtFile()
    return Request(call, done: done)
  }

  /// Where the caller stands, by those who wait for it; nil where that changes nothing, as for an active app.
  func standing(on device: Device) -> Standing? {
    entry.source.view.state(on: device) == .active ? nil : standingOfCaller()
  }

  private func standingOfCaller() -> Standing? {
    guard let app = entry.source.app, reactor.configuration.followsDonations else { return nil }
    return Standing(ofCallerFor: app)
  }

  /// Has the reactor perform a request.
  func carryOut(_ request: Request) async throws(IOError) -> Int {
    await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        request.setCaller(.task(continuation))
        post(request)
      }
    } onCancel: {
      reactor.post(Control { $0.path.end(request, early: .cancelled) })
    }
    return try request.value()
  }

  /// Posts a request, and has the reactor told of those who begin to wait for the caller later.
  func post(_ request: Request) {
    // Before the post: see Donations.
    request.call.standing?.tell(reactor.donations)
    reactor.post(request)
  }

  /// Performs a request that does nothing, through the storage queue to the kernel and back: measures the
  /// cost of the path.
  package func nop(within limit: Duration? = nil) async throws(IOError) {
    try await perform(call(.OPP_RING_NOP), within: limit)
  }
}
