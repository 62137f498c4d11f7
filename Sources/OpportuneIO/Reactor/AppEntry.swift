/// One app, as the reactor knows it: its state as last seen, its requests, its descriptors, its end.
///
/// Invariants:
///  - `inFlight` has exactly the requests whose phase is `inFlight`;
///  - what is `parked` or `held` is so because the app was suspended when the reactor last looked, or because
///    it waits for its next look at the app;
///  - once the app is terminated it stays so, and it takes no descriptors and no new requests.
///
/// Made on the thread that makes the app; its constants are any thread's, the rest is the reactor's.
final class AppEntry: @unchecked Sendable {
  // Sendable: see above.
  let slot: Int
  let name: String
  let source: AppStateSource
  let inline = InlineCalls()

  var descriptors = AppDescriptors()
  private(set) var watches: [Watch] = []

  init(slot: Int, name: String, _ source: AppStateSource) {
    self.slot = slot
    self.name = name
    self.source = source
    state = source.view.state
    runningState = state == .suspended ? .background : state
  }

  // MARK: Its place in the table

  /// No other app of this reactor has had it. 0 before it is in the table.
  private(set) var number: UInt64 = 0

  func toAdded(as number: UInt64) {
    assert(self.number == 0)
    self.number = number
    // Here, and not where the app is made: the reactor frees no memory of other threads (law 1).
    counters = [IOStatistics.Class(), IOStatistics.Class()]
  }

  func add(_ watch: Watch) {
    watches.removeAll { $0.isStopped }
    watches.append(watch)
  }

  // MARK: Its state

  private(set) var state: IOState
  /// The state, or, of a suspended app, the one before.
  private(set) var runningState: IOState
  /// When it was last resumed: what waited before waited for that, not for its turn.
  private(set) var resumedAt: UInt64 = 0
  /// Of the state: see ``AppStateSource/View``. nil before the first look.
  private var generation: UInt64?
  private var limits: IOLimits?

  enum Change {
    case none
    /// Suspended as before, though it may have been resumed in between.
    case suspendedAgain
    case state
  }

  /// Looks at the app, and says what has changed since the last look.
  func refresh(at now: UInt64) -> Change {
    let view = source.view
    guard view.generation != generation || view.limits != limits else { return .none }
    generation = view.generation
    if view.state == state, view.limits == limits { return state == .suspended ? .suspendedAgain : .none }
    let isSuspendedStill = view.state == .suspended && state == .suspended
    limits = view.limits
    guard !isTerminated else { return .none }
    if state == .suspended, view.state != .suspended { resumedAt = now }
    state = view.state
    if state != .suspended { runningState = state }
    return isSuspendedStill ? .suspendedAgain : .state
  }

  /// The state as far as a device is concerned.
  func state(on device: Device) -> IOState { state == .suspended ? .suspended : runningState(on: device) }

  func runningState(on device: Device) -> IOState { limits?.state(on: device) ?? runningState }

  // MARK: Its requests

  /// What the kernel has.
  private(set) var inFlight: [Request] = []
  /// What goes through no queue and waits for the app's resumption.
  private(set) var parked: [Request] = []
  /// Answers that wait for the app's resumption.
  private(set) var held: [Request] = []

  func add(_ request: Request) {
    assert(request.indexInApp == -1)
    request.indexInApp = inFlight.count
    inFlight.append(request)
  }

  func remove(_ request: Request) {
    let index = request.indexInApp
    assert(inFlight[index] === request)
    inFlight.swapAt(index, inFlight.count - 1)
    inFlight[index].indexInApp = index
    inFlight.removeLast()
    request.indexInApp = -1
  }

  func park(_ request: Request) { parked.append(request) }

  func unpark(_ request: Request) { parked.removeAll { $0 === request } }

  func takeParked() -> [Request] {
    defer { parked = [] }
    return parked
  }

  func hold(_ request: Request) { held.append(request) }

  func takeHeld() -> [Request] {
    defer { held = [] }
    return held
  }

  // MARK: What it has done

  /// By class.
  private(set) var counters: [IOStatistics.Class] = []

  func countSubmitted(as ioClass: IOClass) { counters[ioClass.index].submitted += 1 }

  /// - Parameter waiting: from the call's arrival, or its app's resumption since, to the kernel.
  func countSent(as ioClass: IOClass, waiting: UInt64) { counters[ioClass.index].waiting.record(waiting) }

  /// - Parameter inDevice: from the kernel's taking the piece to its completion.
  func countPiece(as ioClass: IOClass, inDevice: UInt64) { counters[ioClass.index].inDevice.record(inDevice) }

  func countMoved(_ bytes: UInt64, as ioClass: IOClass, writes: Bool) {
    if writes {
      counters[ioClass.index].bytesWritten += bytes
    } else {
      counters[ioClass.index].bytesRead += bytes
    }
  }

  func countEnd(_ outcome: Request.Outcome, as ioClass: IOClass) {
    switch outcome {
    case .value, .pending: counters[ioClass.index].completed += 1
    case .failed(.cancelled), .failed(.deadlineExceeded), .failed(.terminated):
      counters[ioClass.index].cancelled += 1
    case .failed: counters[ioClass.index].failed += 1
    }
  }

  // MARK: Its end

  private(set) var isTerminated = false
  /// The end waits for inline calls.
  private(set) var awaitsInlineCalls = false
  /// Closes that wait for what is in flight on their descriptor, and closes at the app's end that the kernel
  /// has.
  private(set) var closes = 0
  private var whenEnded: [() -> Void] = []

  /// - Parameter body: called when the app has ended; may be called for several.
  func toTerminated(then body: @escaping () -> Void) -> Bool {
    whenEnded.append(body)
    defer { isTerminated = true }
    return !isTerminated
  }

  func toAwaitingInlineCalls() {
    assert(isTerminated)
    assert(!awaitsInlineCalls)
    awaitsInlineCalls = true
  }

  func inlineCallsHaveLeft() { awaitsInlineCalls = false }

  func closeBegins() { closes += 1 }

  func closeEnds() {
    assert(closes > 0)
    closes -= 1
  }

  /// All of it is over: calls those who wait for that.
  func toEnded() {
    assert(isTerminated)
    assert(closes == 0)
    let bodies = whenEnded
    whenEnded = []
    for body in bodies { body() }
  }
}
