/// What the reactor thread knows of an app. Touched on that thread only.
final class AppEntry {
  let slot: Int
  let number: UInt64
  let name: String
  weak var handle: AppIO?
  let inline: InlineCalls
  /// The end waits for calls at once.
  var awaitsCallers = false
  var state: IOState {
    didSet { if state != .suspended { runningState = state } }
  }
  /// When it was last resumed: what waited before waited for that, not for its turn.
  var resumedAt: UInt64 = 0
  /// Of the state: see ``AppIO/View``. `nil` before the first look.
  var generation: UInt64?
  var limits: IOLimits?
  /// The state, or, of a suspended app, the one before.
  private(set) var runningState: IOState
  var isTerminated = false
  /// What the kernel has.
  var inFlight: [Request] = []
  /// What goes to no queue, while the app is suspended; opens that wait for others, and for those before them.
  var parked: [Request] = []
  /// Closes that wait for what is in flight on their descriptor.
  var closes = 0
  /// Closes of ours at the end.
  var lastCloses = 0
  /// Answers that wait for the app's resumption.
  var held: [Request] = []
  /// Descriptors that were made through the broker.
  var descriptors: [Int32: OwnedDescriptor] = [:]
  var watches: [Watch] = []
  var counters = [IOStatistics.Class(), IOStatistics.Class()]
  /// Called when the last request of a terminated app has left the kernel.
  var onQuiet: [() -> Void] = []

  init(slot: Int, number: UInt64, name: String, state: IOState, _ inline: InlineCalls) {
    self.inline = inline
    self.slot = slot
    self.number = number
    self.name = name
    self.state = state
    runningState = state == .suspended ? .background : state
  }

  /// The state as far as a device is concerned.
  func state(on device: Device) -> IOState { state == .suspended ? .suspended : runningState(on: device) }

  func runningState(on device: Device) -> IOState { limits?.state(on: device) ?? runningState }

  /// Keeps a request of a suspended app.
  func park(_ request: Request) {
    request.phase = .parked
    parked.append(request)
  }

  func add(_ request: Request) {
    request.indexInApp = inFlight.count
    inFlight.append(request)
  }

  func remove(_ request: Request) {
    let index = request.indexInApp
    guard index >= 0, index < inFlight.count, inFlight[index] === request else { return }
    inFlight.swapAt(index, inFlight.count - 1)
    inFlight[index].indexInApp = index
    inFlight.removeLast()
    request.indexInApp = -1
  }
}

/// A descriptor of an app.
struct OwnedDescriptor {
  /// Of a socket.
  private let identity: SocketIdentity?
  let isSocket: Bool
  var moderation = SocketModeration()
  /// Whether it was said that its packets are not as they should be.
  var hasWarned = false

  init(_ descriptor: Int32, isSocket: Bool) {
    self.isSocket = isSocket
    identity = isSocket ? SocketIdentity(of: descriptor) : nil
  }

  /// Whether the number is no other socket's, after a close behind the broker's back.
  func isStill(_ descriptor: Int32) -> Bool { !isSocket || SocketIdentity(of: descriptor) == identity }
}
