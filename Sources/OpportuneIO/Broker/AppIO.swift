internal import COpportune
import OpportuneScheduler
import SystemPackage

/// The I/O of one app: files and sockets in the class of the app's state.
///
/// All calls may be made from any thread. Each ends exactly once: with its result, an error of the kernel, at
/// its deadline, by cancellation of the task that made it (the kernel is asked to give the request up, and
/// the call returns when it has), or with the app. Close descriptors by ``close(_:)``: the broker closes what
/// is open when the app is terminated.
public final class AppIO: @unchecked Sendable {
  // Sendable: constants, but for `observer`, which is set before anybody else has this.
  /// The app's, for logs and statistics.
  public let name: String
  let broker: IOBroker
  /// The reactor's record of this app.
  let entry: AppEntry
  private let isAttached: Bool
  private var observer: StateObserver?

  /// An app whose state the caller sets.
  init(_ broker: IOBroker, slot: Int, name: String, state: IOState) {
    self.name = name
    self.broker = broker
    isAttached = false
    entry = AppEntry(slot: slot, name: name, AppStateSource(state))
    register()
  }

  /// An app that follows the scheduler's.
  init(_ broker: IOBroker, slot: Int, _ app: App, limits: (@Sendable () -> IOLimits?)?) {
    name = app.name
    self.broker = broker
    isAttached = true
    entry = AppEntry(slot: slot, name: app.name, AppStateSource(app, limits))
    register()
    let observer = StateObserver(self)
    self.observer = observer
    app.addObserver(observer)
    stateChanged()  // what happened in between
  }

  private func register() {
    reactor.post(Control(refused: { [entry] in _ = entry.inline.gate.close() }) { [entry] in $0.add(entry) })
  }

  // Requests hold the app, so there is none.
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

  /// Tells of changes of the scheduler's app.
  private final class StateObserver: AppObserver {
    // Sendable: the runtime's weak references are.
    private nonisolated(unsafe) weak var io: AppIO?
    init(_ io: AppIO) { self.io = io }
    func appDidChange() { io?.stateChanged() }
  }

  /// What its requests are treated as.
  public var state: IOState { entry.source.view.state }

  /// Sets the state of an app that is not attached to the scheduler's; ignored for one that is, which follows
  /// that. From the return on, no request of a suspended app goes to the kernel that was not being handed
  /// over, and what completes is held. What was being handed over, or done inline on a caller's thread,
  /// counts as in flight: where ``IOBroker/statistics()``, asked since, has nothing in flight the kernel does
  /// nothing for the app until its resumption.
  package func setState(_ state: IOState) {
    guard !isAttached, entry.source.set(state) else { return }
    stateChanged()
  }

  private func stateChanged() {
    reactor.post(Control { [self] in $0.path.follow(entry) })
  }

  /// Ends the app's I/O. What is queued, reads, receives, accepts and connections end with `terminated`.
  /// Writes and sends that the kernel has accepted go on to their end; then all descriptors that the broker
  /// made for the app are closed, and the call returns. (R-FTS-07)
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
  ) throws(IOError) -> IOCall {
    try reactor.checkFork()
    return IOCall(self, code, on: device, descriptor: descriptor?.rawValue ?? -1)
  }

  /// Carries a call out: inline where that takes no waiting, else by the reactor.
  ///
  /// - Parameter limit: from now; `nil` is none.
  @discardableResult
  func perform(_ call: IOCall, within limit: Duration?) async throws(IOError) -> Int {
    if Task.isCancelled, !call.isClose {
      call.giveBackBuffers()
      throw call.error(.cancelled)
    }
    var done = 0
    if limit != .zero {
      switch try tryInline(call) {
      case .whole(let moved): return moved
      case .part(let moved): done = moved
      }
    }
    var call = call
    if let limit { call.setLimit(limit) }
    call.lookAtFile()
    return try await carryOut(Request(call, done: done))
  }

  /// Has the reactor carry a request out.
  func carryOut(_ request: Request) async throws(IOError) -> Int {
    await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        request.setCaller(.task(continuation))
        reactor.post(request)
      }
    } onCancel: {
      reactor.post(Control { $0.path.end(request, early: .cancelled) })
    }
    return try request.value()
  }

  /// A call that does nothing, through the storage queue to the kernel and back: what the path costs.
  package func nop(within limit: Duration? = nil) async throws(IOError) {
    try await perform(try call(.OPP_RING_NOP), within: limit)
  }
}
