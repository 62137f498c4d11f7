internal import COpportune
import OpportuneScheduler

/// The I/O schedulers, one for each kind of device, with their queued requests. It also decides the class and
/// the pieces of a request.
///
/// Invariants:
///  - A request is in one scheduler exactly while its phase is `queued`.
///  - `onDescriptors` contains exactly those requests.
///
/// Reactor's thread only.
final class DeviceQueues {
  typealias Grant = IOScheduler<Request>.Grant

  private var schedulers: [IOScheduler<Request>]
  private var onDescriptors = RequestsByDescriptor()
  private let storage: DevicePolicy
  private let network: DevicePolicy
  /// Foreground reads of the storage that wait on their callers' threads.
  private let readsOnWorkers: ReadsOnWorkers
  private let donations: Donations
  /// What targets of apps leave the background of the storage: of the scheduler whose app
  /// came first, as long as that one exists.
  private var storageShare: DeviceShare?

  init(
    storage: DevicePolicy, network: DevicePolicy, readsOnWorkers: ReadsOnWorkers, donations: Donations,
    now: UInt64
  ) {
    (self.storage, self.network, self.readsOnWorkers) = (storage, network, readsOnWorkers)
    self.donations = donations
    schedulers = [IOScheduler(storage, now: now), IOScheduler(network, now: now)]
  }

  // MARK: Apps

  func add(_ app: AppEntry) {
    if storageShare?.isOver ?? true, let share = app.source.app?.deviceShare {
      share.noteReader(least: storage.leastEighths)
      storageShare = share
    }
    for index in schedulers.indices { schedulers[index].addApp(app.slot, state: app.state) }
  }

  func stateChanged(of app: AppEntry) {
    for device in Device.queued {
      schedulers[device.rawValue].setState(
        app.state(on: device), of: app.slot, takesDonations: app.takesDonations(on: device))
    }
  }

  /// Removes the app. Returns the requests that it had queued; they are in no queue any more.
  func remove(_ app: AppEntry) -> [Request] {
    var requests: [Request] = []
    for index in schedulers.indices { requests.append(contentsOf: schedulers[index].removeApp(app.slot)) }
    for request in requests { forget(request) }
    return requests
  }

  func ioClass(of app: AppEntry, on device: Device) -> IOClass {
    policy(of: device).ioClass(of: app.runningState(on: device))
  }

  /// The class of a request: its app's, or the foreground's where somebody there waits for the caller.
  func ioClass(of request: Request) -> IOClass {
    let (app, device) = (request.app, request.call.device)
    request.lookAtDonation()
    return request.isDonated && app.takesDonations(on: device) ? .foreground : ioClass(of: app, on: device)
  }

  private func policy(of device: Device) -> DevicePolicy { device == .network ? network : storage }

  // MARK: Queueing

  /// Queues a request for a device, or the rest of one at its former position. Returns false for an app that
  /// is not in the table.
  func submit(_ request: Request) -> Bool {
    // Background pays for one piece at a time. The class of the request is known only when its turn comes.
    let chunk = chunk(of: request)
    let datagram = request.call.writes ? request.call.datagramCount : min(request.call.datagramCount, chunk)
    let cost = IOScheduler<Request>.Cost(
      bytes: UInt64(max(min(request.left, chunk), datagram)), occupies: !request.waitsForPeer)
    let index = request.call.device.rawValue
    request.lookAtDonation()
    guard
      let ticket = schedulers[index].submit(
        request, app: request.app.slot, cost: cost, at: request.ticket, isDonated: request.isDonated)
    else { return false }
    request.toQueued(ticket)
    onDescriptors.add(request)
    donations.add(request)
    return true
  }

  /// Somebody has begun to wait for tasks that have asked for something: what they have queued moves up.
  func lookAtDonations() {
    for request in donations.look() {
      guard let ticket = request.ticket else { continue }
      _ = schedulers[request.call.device.rawValue].donate(to: ticket)
    }
  }

  /// The request is queued no more.
  private func forget(_ request: Request) {
    onDescriptors.remove(request)
    donations.remove(request)
  }

  /// Removes a queued request.
  func cancel(_ request: Request) {
    guard let ticket = request.ticket else { return }
    let cancelled = schedulers[request.call.device.rawValue].cancel(ticket)
    assert(cancelled === request)
    forget(request)
  }

  func requests(on descriptor: Int32) -> [Request] { onDescriptors.requests(on: descriptor) }

  // MARK: Granting

  /// Grants a request to the device now, if one may go.
  func next(_ device: Device, now: UInt64) -> Grant? {
    if device == .storage {
      schedulers[device.rawValue].foregroundElsewhere = readsOnWorkers.count
      let eighths = storageShare?.eighths ?? DeviceShare.whole
      if eighths != schedulers[device.rawValue].backgroundEighths {
        schedulers[device.rawValue].backgroundEighths = eighths
      }
    }
    let grant = schedulers[device.rawValue].next(now: now)
    if device == .storage {
      readsOnWorkers.tell(holdsBackground: grant == nil && schedulers[device.rawValue].yieldsElsewhere)
    }
    if let grant { forget(grant.item) }
    return grant
  }

  /// Takes back an unused grant.
  func abandon(_ grant: Grant) { schedulers[grant.item.call.device.rawValue].abandon(grant) }

  /// A piece has completed: its device slot is free again, and it moved so many bytes.
  func pieceCompleted(_ grant: Grant, moved: UInt64, now: UInt64) {
    let (request, index) = (grant.item, grant.item.call.device.rawValue)
    schedulers[index].finished(grant, sentAt: request.sentAt, queuedAt: request.queuedAt, now: now)
    schedulers[index].charge(grant, moved: moved)
  }

  /// The number of bytes of the request's next piece in a class.
  func piece(of request: Request, as ioClass: IOClass) -> Int {
    min(request.left, ioClass == .background ? chunk(of: request) : .max, 1 << 30)
  }

  /// The size of a receive is unknown beforehand. So it pays for little in advance; otherwise a few bytes
  /// would wait for the tokens of a large buffer. The rest of a datagram is paid for afterwards.
  private func chunk(of request: Request) -> Int {
    let policy = policy(of: request.call.device)
    guard request.waitsForPeer, !request.call.writes, let bytes = policy.bytes else { return policy.chunk }
    return min(policy.chunk, max(1, bytes.burst / 2))
  }

  /// The class in which an open would be granted; nil where it would not be, as for a suspended app.
  func classOfOpen(_ request: Request) -> IOClass? {
    guard request.app.state != .suspended else { return nil }
    let present = ioClass(of: request)
    guard storage.queuedRequests == .stay, !request.isDonated else { return present }
    return request.ticket?.origin ?? present
  }

  /// When background work that waits only for tokens may continue.
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
      foregroundInFlight: scheduler.inFlight[0] + (device == .storage ? readsOnWorkers.count : 0),
      backgroundInFlight: scheduler.inFlight[1],
      cap: scheduler.cap,
      byteTokens: scheduler.bytes?.available, operationTokens: scheduler.operations?.available)
  }
}
