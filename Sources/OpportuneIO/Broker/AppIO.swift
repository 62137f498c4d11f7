internal import COpportune
import Glibc
import OpportuneScheduler
import Synchronization
import SystemPackage

/// The I/O of one app: files and sockets in the class of the app's state.
///
/// All calls may be made from any thread. Each ends exactly once: with its result, an error of the kernel, at its
/// deadline, by cancellation of the task that made it (the kernel is asked to give the request up, and the call returns
/// when it has), or with the app. Close descriptors by ``close(_:)``: the broker closes what is open when the app is
/// terminated.
public final class AppIO: AppObserver, @unchecked Sendable {
  public let name: String
  let broker: IOBroker
  let slot: Int
  private let app: App?
  private let readLimits: (@Sendable () -> IOLimits?)?
  /// Of an app that is not attached: the state's code in the lowest byte, the count of changes above it.
  private let stateWord: Atomic<UInt64>
  /// The reactor thread has it as well.
  private let inline = InlineCalls()

  // Sendable: constants and atomics.
  init(
    _ broker: IOBroker, _ slot: Int, name: String, state: IOState, of app: App?,
    limits: (@Sendable () -> IOLimits?)? = nil
  ) {
    self.broker = broker
    self.slot = slot
    self.name = name
    self.app = app
    readLimits = limits
    stateWord = Atomic(UInt64(state.code))
    broker.reactor.post(
      Control(refused: { [inline] in _ = inline.end() }) { [weak self, inline] in
        $0.add(slot: slot, name: name, state: state, inline, self)
      })
  }

  // Requests hold the app, so there is none.
  deinit {
    let (slot, broker) = (slot, broker)
    broker.reactor.post(
      Control {
        $0.forget(slot: slot)
        broker.giveBack(slot)
      })
  }

  var reactor: Reactor { broker.reactor }

  // MARK: State

  /// A state, and a number that was another before each change that led to it.
  struct View {
    let state: IOState
    let generation: UInt64
    let limits: IOLimits?

    init(of app: App, _ limits: IOLimits?) {
      let (band, isSuspended, number) = app.moment
      state = isSuspended ? .suspended : band == .background ? .background : .active
      generation = number
      self.limits = limits
    }

    init(word: UInt64) {
      state = IOState(code: UInt8(truncatingIfNeeded: word))
      generation = word >> 8
      limits = nil
    }

    func state(on device: Device) -> IOState {
      state == .suspended ? .suspended : limits?.state(on: device) ?? state
    }
  }

  /// What the app is now. Nothing here is a copy that could lag behind: see ``Reactor/follow(_:)``.
  var view: View {
    // [state] acquire: what came before the change is seen by who sees it. Pairs with setState().
    if let app { View(of: app, readLimits?()) } else { View(word: stateWord.load(ordering: .acquiring)) }
  }

  /// What its requests are treated as.
  public var state: IOState { view.state }

  /// Sets the state of an app that is not attached to the scheduler's; ignored for one that is, which follows that.
  /// From the return on, no request of a suspended app goes to the kernel that was not being handed over, and what
  /// completes is held. What was being handed over, or done at once on a caller's thread, counts as in flight: where
  /// ``IOBroker/statistics()``, asked since, has nothing in flight the kernel does nothing for the app until its resumption.
  public func setState(_ state: IOState) {
    guard app == nil else { return }
    var word = stateWord.load(ordering: .relaxed)
    while View(word: word).state != state {
      let next = (word >> 8 &+ 1) << 8 | UInt64(state.code)
      // [state] release: see view.
      let (exchanged, original) = stateWord.compareExchange(expected: word, desired: next, ordering: .releasing)
      if exchanged { return appDidChange() }
      word = original
    }
  }

  /// The scheduler's app changed its band, or was suspended or resumed.
  public func appDidChange() {
    reactor.post(Control { $0.follow(self) })
  }

  /// Ends the app's I/O. What is queued, reads, receives, accepts and connections end with `terminated`. Writes and sends
  /// that the kernel has accepted go on to their end; then all descriptors that the broker made for the app are closed,
  /// and the call returns. (R-FTS-07)
  public func terminate() async {
    await withUnsafeContinuation { continuation in
      reactor.post(
        Control(refused: { continuation.resume() }) { reactor in
          guard let app = reactor.owned(self) else { return continuation.resume() }
          reactor.terminate(app) { continuation.resume() }
        })
    }
  }

  // MARK: Requests

  func request(_ code: opp_ring_code, _ device: Device = .storage, _ descriptor: FileDescriptor? = nil) throws(IOError)
    -> Request
  {
    try reactor.checkFork()
    return Request(self, code, on: device, descriptor: descriptor?.rawValue ?? -1)
  }

  /// Carries a request out.
  ///
  /// - Parameter limit: from now; `nil` is none.
  @discardableResult
  func perform(_ request: Request, within limit: Duration?) async throws(IOError) -> Int {
    if Task.isCancelled, !request.isClose {
      request.releaseBuffers()
      throw request.error(.cancelled)
    }
    if limit != .zero, let value = try tryInline(request) { return value }
    if let limit {
      request.limit = limit
      let (deadline, overflow) = opp_now_ns().addingReportingOverflow(limit.nanoseconds)
      request.deadline = overflow ? .max : deadline
    }
    request.lookAtFile()
    await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        request.caller = .task(continuation)
        reactor.post(request)
      }
    } onCancel: {
      reactor.post(Control { $0.end(request, early: .cancelled) })
    }
    return try request.value()
  }

  /// A request that does nothing, through the storage queue to the kernel and back: what the path costs.
  package func nop(within limit: Duration? = nil) async throws(IOError) {
    try await perform(try request(.OPP_RING_NOP), within: limit)
  }

  /// Foreground that needs no waiting is done here and now: no queue could give it a better place.
  func tryInline(_ request: Request) throws(IOError) -> Int? {
    guard reactor.configuration.triesInline, request.canBeTriedInline, !reactor.hasFault else { return nil }
    var op = request.op
    op.length = UInt32(min(request.total, 1 << 30))
    let tried = doInline(on: request.device, request.op.fd, since: request.closesBefore) {
      let moved = opp_ring_try(&op)
      // While it is inside, so that what its app has done counts it however soon that ends.
      if moved >= 0 {
        inline.count(Int(moved), writes: request.writes, isWhole: !request.leavesRest(afterMoving: Int(moved)))
      } else if !Self.isNoAnswer(moved) {
        inline.countFailure()
      }
      return moved
    }
    guard let moved = tried, !Self.isNoAnswer(moved) else { return nil }
    guard moved >= 0 else {
      // Not asked again: a socket tells some errors once.
      request.releaseBuffers()
      throw request.error(.system(Errno(rawValue: -moved)))
    }
    request.done = Int(moved)
    guard !request.leavesRest(afterMoving: request.done) else { return nil }
    request.releaseBuffers()
    return request.done
  }

  /// Whether the queue is to try it anew, from the start.
  private static func isNoAnswer(_ result: Int32) -> Bool {
    result == -EAGAIN || result == -EOPNOTSUPP || result == -EINTR
  }

  /// Calls `body` on this thread, which does not wait, where the app is active, or at least not suspended: else, and where it
  /// has ended, or where the descriptor may have been closed, nil. For it may be another's file then: see ``InlineCalls`` and
  /// ``CallersByDescriptor``.
  func doInline(
    on device: Device, _ descriptor: Int32, since closes: UInt64, unlessSuspended: Bool = false, _ body: () -> Int32
  ) -> Int32? {
    let entry = inline.enter()
    guard entry == .inside else {
      if entry == .refusedAsLast { tellOfTheLast() }
      return nil
    }
    defer { if inline.leave() { tellOfTheLast() } }
    let callers = reactor.callers
    let entryOnDescriptor = callers.enter(descriptor, since: closes)
    guard entryOnDescriptor == .inside else {
      if entryOnDescriptor == .refusedAsLast { tellOfTheLast(on: descriptor) }
      return nil
    }
    defer { if callers.leave(descriptor) { tellOfTheLast(on: descriptor) } }
    let state = view.state(on: device)
    guard state == .active || (unlessSuspended && state != .suspended) else { return nil }
    reactor.configuration.onInlineCall?()
    return body()
  }

  private func tellOfTheLast() {
    reactor.post(Control { if let app = $0.owned(self) { $0.lastHasLeft(app) } })
  }

  private func tellOfTheLast(on descriptor: Int32) {
    reactor.post(Control { $0.lastHasLeft(descriptor) })
  }
}

extension IOState {
  var code: UInt8 {
    switch self {
    case .active: 0
    case .inactive: 1
    case .background: 2
    case .suspended: 3
    }
  }

  init(code: UInt8) {
    self =
      switch code {
      case 0: .active
      case 1: .inactive
      case 2: .background
      default: .suspended
      }
  }
}
