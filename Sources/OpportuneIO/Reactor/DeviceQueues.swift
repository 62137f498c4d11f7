internal import COpportune

/// The I/O schedulers, one for each kind of device, with the requests that they have queued; and in what
/// class and pieces a request goes.
///
/// Invariants:
///  - a request is in one scheduler exactly while its phase is `queued`;
///  - `onDescriptors` has exactly those requests.
///
/// The reactor's alone.
final class DeviceQueues {
  typealias Grant = IOScheduler<Request>.Grant

  private var schedulers: [IOScheduler<Request>]
  private var onDescriptors = RequestsByDescriptor()
  private let storage: DevicePolicy
  private let network: DevicePolicy

  init(storage: DevicePolicy, network: DevicePolicy, now: UInt64) {
    (self.storage, self.network) = (storage, network)
    schedulers = [IOScheduler(storage, now: now), IOScheduler(network, now: now)]
  }

  // MARK: Apps

  func add(_ app: AppEntry) {
    for index in schedulers.indices { schedulers[index].addApp(app.slot, state: app.state) }
  }

  func stateChanged(of app: AppEntry) {
    for device in Device.queued { schedulers[device.rawValue].setState(app.state(on: device), of: app.slot) }
  }

  /// Forgets the app. Returns what it had queued, which is in no queue any more.
  func remove(_ app: AppEntry) -> [Request] {
    var requests: [Request] = []
    for index in schedulers.indices { requests.append(contentsOf: schedulers[index].removeApp(app.slot)) }
    for request in requests { onDescriptors.remove(request) }
    return requests
  }

  func ioClass(of app: AppEntry, on device: Device) -> IOClass {
    policy(of: device).ioClass(of: app.runningState(on: device))
  }

  private func policy(of device: Device) -> DevicePolicy { device == .network ? network : storage }

  // MARK: Queueing

  /// Queues a request of a device, or the rest of one at its former place. False for an app that is not
  /// there.
  func submit(_ request: Request) -> Bool {
    // Background pays for a piece, never for the whole. As whose it goes is not known before its turn.
    let chunk = chunk(of: request)
    let datagram = request.call.writes ? request.call.datagramCount : min(request.call.datagramCount, chunk)
    let cost = IOScheduler<Request>.Cost(
      bytes: UInt64(max(min(request.left, chunk), datagram)), occupies: !request.waitsForPeer)
    let index = request.call.device.rawValue
    guard
      let ticket = schedulers[index].submit(request, app: request.app.slot, cost: cost, at: request.ticket)
    else { return false }
    request.toQueued(ticket)
    onDescriptors.add(request)
    return true
  }

  /// Takes a queued request out.
  func cancel(_ request: Request) {
    guard let ticket = request.ticket else { return }
    let cancelled = schedulers[request.call.device.rawValue].cancel(ticket)
    assert(cancelled === request)
    onDescriptors.remove(request)
  }

  func requests(on descriptor: Int32) -> [Request] { onDescriptors.requests(on: descriptor) }

  // MARK: Granting

  /// The request that goes to a device now, if any may.
  func next(_ device: Device, now: UInt64) -> Grant? {
    guard let grant = schedulers[device.rawValue].next(now: now) else { return nil }
    onDescriptors.remove(grant.item)
    return grant
  }

  /// Takes back a grant of which no use was made.
  func abandon(_ grant: Grant) { schedulers[grant.item.call.device.rawValue].abandon(grant) }

  /// The request has no place in the device any more, and moved so many bytes.
  func pieceCompleted(_ grant: Grant, moved: UInt64, now: UInt64) {
    let (request, index) = (grant.item, grant.item.call.device.rawValue)
    schedulers[index].finished(grant, sentAt: request.sentAt, queuedAt: request.queuedAt, now: now)
    schedulers[index].charge(grant, moved: moved)
  }

  /// The bytes of the next piece of a request in a class.
  func piece(of request: Request, as ioClass: IOClass) -> Int {
    min(request.left, ioClass == .background ? chunk(of: request) : .max, 1 << 30)
  }

  /// Nobody knows how much a receive will bring. So little is paid for beforehand that a few bytes do not
  /// wait for the tokens of a large buffer. What else a datagram brings is paid for afterwards.
  private func chunk(of request: Request) -> Int {
    let policy = policy(of: request.call.device)
    guard request.waitsForPeer, !request.call.writes, let bytes = policy.bytes else { return policy.chunk }
    return min(policy.chunk, max(1, bytes.burst / 2))
  }

  /// The class in which an open would be granted; nil where it would not be, as of a suspended app.
  func classOfOpen(_ request: Request) -> IOClass? {
    guard request.app.state != .suspended else { return nil }
    let present = ioClass(of: request.app, on: .storage)
    return storage.queuedRequests == .stay ? request.ticket?.origin ?? present : present
  }

  /// When background that waits for tokens alone may go on.
  func wakeTime(now: UInt64) -> UInt64 {
    var time = UInt64.max
    for index in schedulers.indices { time = min(time, schedulers[index].wakeTime(now: now) ?? .max) }
    return time
  }

  // MARK: Statistics

  func statistics(of device: Device) -> IOStatistics.Device {
    let scheduler = schedulers[device.rawValue]
    return IOStatistics.Device(
      foregroundQueued: scheduler.queued[0], backgroundQueued: scheduler.queued[1],
      foregroundInFlight: scheduler.inFlight[0], backgroundInFlight: scheduler.inFlight[1],
      cap: scheduler.cap,
      byteTokens: scheduler.bytes?.available, operationTokens: scheduler.operations?.available)
  }
}
