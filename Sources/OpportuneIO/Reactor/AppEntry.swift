import OpportuneScheduler

/// The reactor's record of one app: its last known state, its requests, its descriptors, its end.
///
/// Invariants:
///  - `inFlight` contains exactly the requests whose phase is `inFlight`.
///  - A request is in `parked` or `held` because the app was suspended at the reactor's last look, or until
///    the reactor's next look at the app.
///  - Once the app is terminated it stays so, and it accepts no descriptors and no new requests.
///
/// Made on the thread that makes the app. Its constants may be read on any thread; all else belongs to the
/// reactor's thread.
final class AppEntry: @unchecked Sendable {
  // Sendable: see above.
  let slot: Int
  let name: String
  let source: AppStateSource
  let inline = InlineCalls()
  /// Where the app's receives wait while it is active; nil where they wait in the reactor.
  let readiness: DescriptorReadiness?

  var descriptors = AppDescriptors()
  private(set) var watches: [Watch] = []

  init(slot: Int, name: String, _ source: AppStateSource) {
    self.slot = slot
    self.name = name
    self.source = source
    readiness = source.app?.readiness
    state = source.view.state
    runningState = state == .suspended ? .background : state
  }

  // MARK: The number

  /// Unique among all apps of this reactor, past ones included. 0 before the entry is in the table.
  private(set) var number: UInt64 = 0

  func toAdded(as number: UInt64) {
    assert(self.number == 0)
    self.number = number
    // Allocated here, on the reactor's thread: the reactor frees no memory of other threads (law 1).
    counters = [IOStatistics.Class(), IOStatistics.Class()]
  }

  func add(_ watch: Watch) {
    watches.removeAll { $0.isStopped }
    watches.append(watch)
  }

  // MARK: State

  private(set) var state: IOState
  /// The state; of a suspended app, the state before the suspension.
  private(set) var runningState: IOState
  /// When the app was last resumed. Waiting times of earlier requests count from then, since before they
  /// waited for the resumption and not for their turn.
  private(set) var resumedAt: UInt64 = 0
  /// The generation of the state: see ``AppStateSource/View``. nil before the first look.
  private var generation: UInt64?
  private var limits: IOLimits?

  enum Change {
    case none
    /// Suspended at both looks; it may have been resumed in between.
    case suspendedAgain
    case state
  }

  /// Reads the app's state, and returns what has changed since the last look.
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

  /// The state that counts for requests to a device.
  func state(on device: Device) -> IOState { state == .suspended ? .suspended : runningState(on: device) }

  func takesDonations(on device: Device) -> Bool { limits.allowDonations(on: device) }

  func runningState(on device: Device) -> IOState { limits?.state(on: device) ?? runningState }

  // MARK: Requests

  /// Requests that the kernel has.
  private(set) var inFlight: [Request] = []
  /// Requests in no queue that wait until the app is resumed.
  private(set) var parked: [Request] = []
  /// Answers that wait until the app is resumed.
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

  // MARK: Counters

  /// Counters by class.
  private(set) var counters: [IOStatistics.Class] = []

  func countSubmitted(as ioClass: IOClass) { counters[ioClass.index].submitted += 1 }

  /// - Parameter waiting: from the call's arrival, or the app's resumption since, to the hand-over to the
  ///   kernel; nanoseconds.
  func countSent(as ioClass: IOClass, waiting: UInt64) { counters[ioClass.index].waiting.record(waiting) }

  /// - Parameter inDevice: from the hand-over of the piece to the kernel to its completion; nanoseconds.
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

  // MARK: Termination

  private(set) var isTerminated = false
  /// Whether the termination waits for inline calls to leave the gate.
  private(set) var awaitsInlineCalls = false
  /// The number of outstanding closes: those that wait for requests in flight on their descriptor, and closes
  /// of the termination that the kernel has.
  private(set) var closes = 0
  private var whenEnded: [() -> Void] = []

  /// - Parameter body: called when the app has ended. Several bodies may be added.
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

  /// The termination is complete: calls the bodies that wait for it.
  func toEnded() {
    assert(isTerminated)
    assert(closes == 0)
    let bodies = whenEnded
    whenEnded = []
    for body in bodies { body() }
  }
}
