internal import COpportuneClient
internal import Foundation
internal import Glibc
internal import OpportuneBase

/// The thread of a connection, and the task that calls the delegate.
///
/// The thread hands questions to the task and answers nothing itself, so a callback may ask the host for
/// something and wait for that.
final class ClientLoop: @unchecked Sendable {
  // Sendable: the client and all that changes is touched under the lock alone.
  private let lock = Lock()
  private var client: OpaquePointer?
  /// Why there is no client.
  private var reason = ""
  private var heard: [Heard] = []
  private var begun: [Int64: Waits<Int64>] = [:]
  /// Of sockets that are handed over, until the host has answered.
  private var kept: [Int64: Waits<Int64>] = [:]
  /// Of heartbeats that are set, by the number of the request, until the host has answered.
  private var beats: [Int64: Waits<Void>] = [:]
  /// Notifications that are scheduled, by the number of the request, until the host has answered.
  private var scheduled: [Int64: (name: String, waits: Waits<PendingNotification>)] = [:]
  /// Of lists of notifications: what has come by now.
  private var lists: [Int64: (found: [PendingNotification], waits: Waits<[PendingNotification]>)] = [:]
  private var expired: [Int64: @Sendable (BackgroundTask) async -> Void] = [:]
  private typealias Waits<Value> = CheckedContinuation<Result<Value, HostConnectionError>, Never>
  /// What wakes the thread: read, written.
  private let wake: (Int32, Int32)
  private(set) var name = ""
  /// The apps inside of the program, and who tells of them.
  private var listed: (apps: ListedApps, task: Task<Void, Never>)?
  private var listings = 0
  /// `nil`: the host has not said yet.
  private var isInFront: Bool?
  /// How long the host waits for an answer.
  private var grace: Duration = .seconds(5)

  /// What the delegate is to hear.
  private enum Heard: Sendable {
    case launched(LaunchReason, id: UInt64)
    case question(oppclient_event, id: UInt64, task: Int64, bytes: UInt64, state: [UInt8])
    case message(Message, id: UInt64)
    case wish(oppclient_event, app: Int64, id: UInt64)
    case appRefused(Int64, String)
    case list(ListedApps)
    case left(String)
  }

  private init() throws(HostConnectionError) {
    var ends: [Int32] = [-1, -1]
    // Not a pipe, which is inherited by who forks before it has its flags.
    let kind = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue)
    guard socketpair(AF_UNIX, kind, 0, &ends) == 0 else { throw HostConnectionError(.system(errno)) }
    wake = (ends[0], ends[1])
  }

  deinit {
    close(wake.0)
    close(wake.1)
  }

  static func join(
    socket: String?, within limit: Duration, delegate: any ProgramDelegate
  ) throws(HostConnectionError) -> ClientLoop {
    let loop = try ClientLoop()
    let path = if let socket { socket } else { try standardPath() }
    try loop.connect(path, limit, restarts: delegate is any RestartableProgramDelegate)
    let (stream, continuation) = AsyncStream.makeStream(of: Heard.self)
    Task { await loop.call(delegate, stream) }
    Thread.detachNewThread { loop.run(continuation) }
    return loop
  }

  private static func standardPath() throws(HostConnectionError) -> String {
    var bytes = [CChar](repeating: 0, count: 4096)
    guard oppclient_standard_path(&bytes, bytes.count) == 0 else { throw HostConnectionError(.noPath) }
    return Self.text(bytes)
  }

  private static func text(_ bytes: [CChar]) -> String {
    String(decoding: bytes.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  private func connect(
    _ path: String, _ limit: Duration, restarts: Bool
  ) throws(HostConnectionError) {
    var refusal = [CChar](repeating: 0, count: 512)
    var made: OpaquePointer?
    let milliseconds = Int32(clamping: Int64(limit / .milliseconds(1)))
    let error = (restarts ? oppclient_join_restartable : oppclient_join)(
      path, milliseconds,
      { _, notice, context in
        guard let context else { return }
        Unmanaged<ClientLoop>.fromOpaque(context).takeUnretainedValue().hear(notice.pointee)
      }, Unmanaged.passUnretained(self).toOpaque(), &refusal, refusal.count, &made)
    switch error {
    case 0: break
    case -EPERM: throw HostConnectionError(.refused(Self.text(refusal)))
    case -ETIMEDOUT: throw HostConnectionError(.timedOut(limit))
    case -ENOMEM, -EMFILE, -ENFILE: throw HostConnectionError(.system(-error))
    default: throw HostConnectionError(.noHost(path, -error))
    }
    guard let made else { return }
    client = made
    name = String(cString: oppclient_name(made))
  }

  var isJoined: Bool { lock.withLock { client != nil } }

  // MARK: What the program asks for

  /// Waits for the host's answer to a request.
  ///
  /// - Parameters:
  ///   - badInput: the code where the library refuses what it was given.
  ///   - say: returns the request's number, or -errno.
  ///   - waits: keeps who waits, by that number. Both are called with the lock held.
  private func ask<Answer: Sendable>(
    ofBadInput badInput: HostConnectionError.Code? = nil, _ say: (OpaquePointer) -> Int64,
    waits: (Int64, Waits<Answer>) -> Void
  ) async -> Result<Answer, HostConnectionError> {
    await withCheckedContinuation { continuation in
      let refused: HostConnectionError? = lock.withLock {
        guard let client else { return HostConnectionError(.left(reason)) }
        let number = say(client)
        guard number <= 0 else {
          waits(number, continuation)
          return nil
        }
        if let badInput, [Int64(-EINVAL), Int64(-EILSEQ)].contains(number) {
          return HostConnectionError(badInput)
        }
        return HostConnectionError(.system(Int32(clamping: -number)))
      }
      if let refused { continuation.resume(returning: .failure(refused)) } else { tellThread() }
    }
  }

  func begin(
    _ name: String, _ handler: @escaping @Sendable (BackgroundTask) async -> Void
  ) async -> Result<Int64, HostConnectionError> {
    await ask(ofBadInput: .taskName(name)) { client in
      oppclient_begin_task(client, name)
    } waits: { number, waits in
      begun[number] = waits
      expired[number] = handler
    }
  }

  func end(_ task: Int64) {
    lock.withLock {
      expired[task] = nil
      if let client { _ = oppclient_end_task(client, task) }
    }
    tellThread()
  }

  func keepAlive(_ descriptor: Int32) async -> Result<Int64, HostConnectionError> {
    await ask {
      oppclient_keep_alive($0, descriptor)
    } waits: {
      kept[$0] = $1
    }
  }

  func letGo(_ socket: Int64) {
    lock.withLock { if let client { _ = oppclient_let_go(client, socket) } }
    tellThread()
  }

  func setHeartbeat(every interval: Duration?) async -> Result<Void, HostConnectionError> {
    var milliseconds: Int64 = 0
    if let interval {
      // A number that is too large for nanoseconds is none for the host, either.
      guard interval >= .milliseconds(1), interval <= .nanoseconds(Int64.max / 2) else {
        return .failure(HostConnectionError(.heartbeatInterval(interval)))
      }
      milliseconds = Int64(interval / .milliseconds(1))
    }
    return await ask {
      oppclient_heartbeat($0, milliseconds)
    } waits: {
      beats[$0] = $1
    }
  }

  func schedule(
    _ notification: LocalNotification, as name: String
  ) async -> Result<PendingNotification, HostConnectionError> {
    let now = Date().timeIntervalSince1970
    guard let fires = notification.nextFire(after: now, isFirst: true) else {
      return .failure(HostConnectionError(.fireDate(notification.fireDate)))
    }
    return await ask(ofBadInput: .notificationLength(name)) { client in
      Self.schedule(client, notification, fires, name)
    } waits: {
      scheduled[$0] = (name, $1)
    }
  }

  private static func schedule(
    _ client: OpaquePointer, _ notification: LocalNotification, _ fires: Double, _ name: String
  ) -> Int64 {
    let texts = [name, notification.body, notification.action, notification.sound, notification.timeZone]
    // A text of C ends with the first.
    if texts.contains(where: { $0?.utf8.contains(0) == true }) { return Int64(-EINVAL) }
    let copies = texts.map { $0.flatMap { UnsafePointer(strdup($0)) } }
    defer { for copy in copies { free(UnsafeMutablePointer(mutating: copy)) } }
    guard let copied = copies[0] else { return Int64(-ENOMEM) }
    let repeats =
      switch notification.repeats {
      case .never: OPPCLIENT_ONCE
      case .daily: OPPCLIENT_DAILY
      case .weekly: OPPCLIENT_WEEKLY
      }
    // 0 is none.
    let milliseconds = Int64((fires * 1000).rounded())
    var told = oppclient_notification(
      name: copied, body: copies[1], action: copies[2], sound: copies[3],
      at_ms: milliseconds == 0 ? 1 : milliseconds, after_ms: 0, repeats: repeats, time_zone: copies[4])
    return oppclient_schedule(client, &told)
  }

  /// Tells of the apps inside of the program, in place of those of which it told before; soon, in its turn
  /// among the callbacks.
  func list(_ apps: AppHost, _ refused: @escaping @Sendable (String, String) -> Void) {
    lock.withLock {
      guard client != nil else { return }
      listings += 1
      heard.append(.list(ListedApps(apps, base: Int64(listings) << 32, refused)))
    }
    tellThread()
  }

  /// Called by the task of the callbacks alone.
  private func begin(_ new: ListedApps) async {
    let (isBehind, grace) = lock.withLock { (isInFront == false, self.grace) }
    let before = lock.withLock { () -> (apps: ListedApps, task: Task<Void, Never>)? in
      defer { listed = nil }
      return listed
    }
    if let before {
      before.task.cancel()
      await before.task.value
      await before.apps.forget(self)
    }
    if isBehind { await new.leaveFront(within: grace / 2) }
    lock.withLock {
      if client != nil { listed = (new, Task { [weak self] in if let self { await new.follow(self) } }) }
    }
  }

  /// - Returns: 0, or -errno.
  func tellApp(_ number: Int64, _ name: String, _ state: oppclient_state) -> Int32 {
    defer { tellThread() }
    return lock.withLock { client.map { oppclient_tell_app($0, number, name, state) } ?? -EPIPE }
  }

  func cancel(_ name: String?) {
    lock.withLock { if let client { _ = oppclient_cancel(client, name) } }
    tellThread()
  }

  func pending() async -> Result<[PendingNotification], HostConnectionError> {
    await ask {
      oppclient_pending($0)
    } waits: {
      lists[$0] = ([], $1)
    }
  }

  func leave() { lose("it was left") }

  private func lose(_ why: String) {
    var apps: ListedApps?
    let (waiting, beating, notified, asked) = lock.withLock {
      () -> ([Waits<Int64>], [Waits<Void>], [Waits<PendingNotification>], [Waits<[PendingNotification]>]) in
      guard let client else { return ([], [], [], []) }
      oppclient_close(client)
      self.client = nil
      reason = why
      expired = [:]
      apps = listed?.apps
      listed?.task.cancel()
      (listed, isInFront) = (nil, nil)
      defer { (begun, kept, beats, scheduled, lists) = ([:], [:], [:], [:], [:]) }
      return (
        Array(begun.values) + Array(kept.values), Array(beats.values), scheduled.values.map(\.waits),
        lists.values.map(\.waits)
      )
    }
    let left = HostConnectionError(.left(why))
    for one in waiting { one.resume(returning: .failure(left)) }
    for one in beating { one.resume(returning: .failure(left)) }
    for one in notified { one.resume(returning: .failure(left)) }
    for one in asked { one.resume(returning: .failure(left)) }
    // No host keeps them out of the front any more.
    if let apps { Task { await apps.comeToFront() } }
    tellThread()
  }

  /// A full pipe wakes it as well.
  private func tellThread() { _ = write(wake.1, [0], 1) }

  // MARK: What the host says

  /// Called by the library within its dispatch, under the lock.
  private func hear(_ notice: oppclient_notice) {
    let why = notice.reason.map { String(cString: $0) } ?? ""
    switch notice.event {
    case OPPCLIENT_TASK_BEGAN:
      begun.removeValue(forKey: notice.task)?.resume(returning: .success(notice.task))
    case OPPCLIENT_TASK_REFUSED:
      expired[notice.task] = nil
      begun.removeValue(forKey: notice.task)?.resume(
        returning: .failure(HostConnectionError(.taskRefused(why))))
    case OPPCLIENT_KEEP_ALIVE_BEGAN:
      kept.removeValue(forKey: notice.socket)?.resume(returning: .success(notice.socket))
    case OPPCLIENT_KEEP_ALIVE_REFUSED:
      kept.removeValue(forKey: notice.socket)?.resume(
        returning: .failure(HostConnectionError(.keepAliveRefused(why))))
    case OPPCLIENT_HEARTBEAT_SET: beats.removeValue(forKey: notice.request)?.resume(returning: .success(()))
    case OPPCLIENT_HEARTBEAT_REFUSED:
      beats.removeValue(forKey: notice.request)?.resume(
        returning: .failure(HostConnectionError(.heartbeatRefused(why))))
    case OPPCLIENT_SCHEDULED:
      guard let (name, waits) = scheduled.removeValue(forKey: notice.request) else { return }
      waits.resume(returning: .success(PendingNotification(name: name, fires: Self.seconds(notice.at_ms))))
    case OPPCLIENT_SCHEDULE_REFUSED:
      scheduled.removeValue(forKey: notice.request)?.waits.resume(
        returning: .failure(HostConnectionError(.notificationRefused(why))))
    case OPPCLIENT_PENDING:
      let name = notice.name.map { String(cString: $0) } ?? ""
      lists[notice.request]?.found.append(
        PendingNotification(name: name, fires: Self.seconds(notice.at_ms)))
    case OPPCLIENT_PENDING_END:
      guard let (found, waits) = lists.removeValue(forKey: notice.request) else { return }
      waits.resume(returning: .success(found))
    case OPPCLIENT_APP_REFUSED:
      heard.append(.appRefused(notice.app, why))
    case OPPCLIENT_LEFT: heard.append(.left(why))
    default:
      guard notice.id != 0, let client else { return }
      grace = .nanoseconds(Int64(clamping: notice.grace_ns))
      _ = oppclient_defer(client)
      if notice.event == OPPCLIENT_MESSAGE {
        heard.append(.message(Self.message(notice), id: notice.id))
        return
      }
      if notice.event == OPPCLIENT_DID_FINISH_LAUNCHING {
        heard.append(.launched(Self.reason(notice.launch), id: notice.id))
        return
      }
      if [OPPCLIENT_BRING_APP_FORWARD, OPPCLIENT_SUSPEND_APP, OPPCLIENT_TERMINATE_APP].contains(notice.event)
      {
        heard.append(.wish(notice.event, app: notice.app, id: notice.id))
        return
      }
      let state = UnsafeBufferPointer(start: notice.state, count: notice.state_size)
      heard.append(
        .question(
          notice.event, id: notice.id, task: notice.task, bytes: notice.bytes, state: Array(state)))
    }
  }

  private static func reason(_ launch: oppclient_launch) -> LaunchReason {
    switch launch {
    case OPPCLIENT_LAUNCHED_BY_MESSAGE: .message
    case OPPCLIENT_LAUNCHED_BY_SYSTEM: .system
    default: .user
    }
  }

  private static func seconds(_ milliseconds: Int64) -> Double { Double(milliseconds) / 1000 }

  private static func message(_ notice: oppclient_notice) -> Message {
    let payload = notice.payload.map { Data(String(cString: $0).utf8) } ?? Data()
    return Message(
      notice.kind.map { String(cString: $0) } ?? "",
      payload: (try? JSONDecoder().decode([String: String].self, from: payload)) ?? [:],
      origin: notice.is_local != 0 ? .local : .push)
  }

  private func run(_ continuation: AsyncStream<Heard>.Continuation) {
    defer { continuation.finish() }
    while true {
      let polled: [pollfd]? = lock.withLock {
        guard let client else { return nil }
        return [
          pollfd(fd: oppclient_descriptor(client), events: oppclient_events(client), revents: 0),
          pollfd(fd: wake.0, events: Int16(POLLIN), revents: 0),
        ]
      }
      guard var polled else { return }
      _ = poll(&polled, 2, -1)
      var bytes = [UInt8](repeating: 0, count: 64)
      while read(wake.0, &bytes, bytes.count) > 0 {}
      let new = lock.withLock { () -> [Heard] in
        defer { heard = [] }
        if let client { _ = oppclient_dispatch(client) }
        return heard
      }
      for one in new {
        if case .left(let why) = one { lose(why) }
        continuation.yield(one)
      }
    }
  }

  // MARK: The delegate

  private func call(_ delegate: any ProgramDelegate, _ stream: AsyncStream<Heard>) async {
    for await one in stream {
      switch one {
      case .left(let why): await delegate.didLeaveHost(why)
      case .question(let event, let id, let task, let bytes, let state):
        guard isJoined else { continue }
        if let restartable = delegate as? any RestartableProgramDelegate {
          await carryOut(event, state, restartable)
        }
        if event == OPPCLIENT_DATA_ARRIVED {
          await delegate.didReceive(.data(bytes: Int(clamping: bytes)))
        } else {
          await carryOut(event, task, delegate)
        }
        answer(id)
      case .list(let new): await begin(new)
      case .appRefused(let number, let reason):
        await lock.withLock { listed?.apps }?.isRefused(number, reason)
      case .wish(let event, let app, let id):
        guard isJoined else { continue }
        let apps = lock.withLock { listed?.apps }
        let why = await apps?.carryOut(event, app) ?? (apps == nil ? "its program lists none" : nil)
        lock.withLock {
          guard let client, let why, oppclient_reply(client, why) == -EINVAL else { return }
          // Without a reason it would count as done.
          _ = oppclient_reply(client, String(why.prefix(200)) + "…")
        }
        answer(id)
      case .launched(let reason, let id):
        guard isJoined else { continue }
        await delegate.didFinishLaunching(reason)
        answer(id)
      case .message(let message, let id):
        guard isJoined else { continue }
        let reply = await delegate.reply(to: message)
        lock.withLock { if let client, let reply { _ = oppclient_reply(client, reply) } }
        answer(id)
      }
    }
  }

  private func isInFront(_ isIt: Bool) { lock.withLock { isInFront = isIt } }

  private func answer(_ id: UInt64) {
    lock.withLock { if let client { _ = oppclient_answer(client, id) } }
    tellThread()
  }

  private func carryOut(
    _ event: oppclient_event, _ state: [UInt8], _ delegate: any RestartableProgramDelegate
  ) async {
    switch event {
    case OPPCLIENT_RESTORE_STATE: await delegate.restoreState(state)
    case OPPCLIENT_SAVE_STATE:
      guard let state = await delegate.saveState() else { return }
      // Where it fails, the host finds no state, and says so.
      lock.withLock { if let client { _ = oppclient_save_state(client, state, state.count) } }
    default: break
    }
  }

  private func carryOut(_ event: oppclient_event, _ task: Int64, _ delegate: any ProgramDelegate) async {
    switch event {
    case OPPCLIENT_WILL_ENTER_FOREGROUND: await delegate.willEnterForeground()
    case OPPCLIENT_DID_BECOME_ACTIVE:
      isInFront(true)
      await lock.withLock { listed?.apps }?.comeToFront()
      await delegate.didBecomeActive()
    case OPPCLIENT_WILL_RESIGN_ACTIVE: await delegate.willResignActive()
    case OPPCLIENT_DID_ENTER_BACKGROUND:
      let (apps, grace) = lock.withLock { (listed?.apps, self.grace) }
      isInFront(false)
      await apps?.leaveFront(within: grace / 2)
      await delegate.didEnterBackground()
    case OPPCLIENT_WILL_TERMINATE: await delegate.willTerminate()
    case OPPCLIENT_WILL_SUSPEND: await delegate.willSuspend()
    case OPPCLIENT_DID_RESUME: await delegate.didResume()
    case OPPCLIENT_MEMORY_WARNING: await delegate.didReceiveMemoryWarning()
    case OPPCLIENT_HEARTBEAT: await delegate.didReceive(.heartbeat)
    case OPPCLIENT_TASK_EXPIRES:
      let handler = lock.withLock { expired.removeValue(forKey: task) }
      await handler?(BackgroundTask(number: task, loop: self))
    default: break  // of a later host: answered, so that it goes on
    }
  }
}
