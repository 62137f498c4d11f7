internal import Glibc
package import OpportuneApps

/// The host's core as it is, over made-up programs in virtual time: what programs say comes by real sockets,
/// all else follows from the calls. Nothing waits.
///
/// Used by one thread at a time.
package final class VirtualPrograms {
  private let core: HostCore
  private let machine: Machine
  /// The programs' ends of their connections, by app; of those that have closed theirs none.
  private var ends: [String: Int32] = [:]

  /// What the core sees of the machine.
  private final class Machine {
    var now = Moment.zero
    var nextPid = VirtualGroup.firstPid
    /// What is to run on another thread.
    var aside: [@Sendable () -> Void] = []
    var flushFails = false
  }

  /// What is shown of an app.
  package struct Seen: Sendable, Hashable {
    /// As of ``AppEntry``.
    package var state: String
    package var isStopping: Bool
    package var hasProcess: Bool
    package var isFrozen: Bool
    /// Whether SIGTERM was sent.
    package var isAskedToEnd: Bool
    package var hasJoined: Bool
    /// What its program is asked, the first first.
    package var questions: [UInt64]
    package var tasks: Set<Int64>
    package var sockets: Int
    /// Whether it is asked for heartbeats while it is suspended.
    package var hasHeartbeat: Bool
    /// When its first question is to be answered.
    package var answersUntil: Moment?
    /// When what is to be suspended is looked at again.
    package var suspensionWaitsUntil: Moment?
    package var killAt: Moment?
    package var isSuspendedLater: Bool
    /// Messages whose senders wait.
    package var messages: Int
    /// Notifications that are to fire.
    package var scheduled: Int
    /// Those that have fired, and were not told.
    package var due: Int
    /// What is told of it, for people.
    package var notes: [String]
  }

  /// What a user asks a host for.
  package enum Request: Sendable, Hashable {
    case start(foreground: Bool)
    /// A program that has no manifest.
    case run(foreground: Bool)
    case suspend(isAgain: Bool)
    case resume
    case hibernate(isAgain: Bool)
    case terminate
    case keep(seconds: Double?)
    case endKeeping
    case warn
    case notify(Message)
  }

  /// - Parameters:
  ///   - catalog: what may be started.
  ///   - states: the folder of saved states; `nil`: none are saved.
  package init(_ catalog: ManifestCatalog, states: String?) throws(ProcessHostError) {
    let machine = Machine()
    self.machine = machine
    var configuration = HostConfiguration()
    (configuration.catalog, configuration.states) = (catalog, states)
    (configuration.hasSwap, configuration.locks.answer) = (false, .ignore)
    (configuration.usesClassGroups, configuration.usesMemoryGroups) = (false, false)
    nonisolated(unsafe) let clock = machine  // used by this thread alone
    configuration.wallClock = { 1e9 + (clock.now - .zero) / .seconds(1) }
    configuration.flush = { paths in clock.flushFails ? (paths.first ?? "", EIO) : nil }
    core = try HostCore(
      key: "virtual", configuration: configuration,
      standIn: MachineStandIn(
        now: { machine.now },
        start: { _ in
          machine.nextPid += 1
          return VirtualGroup(machine.nextPid)
        }), runAside: { machine.aside.append($0) }, wakeUp: {})
  }

  deinit {
    core.leave()
    for end in ends.values { close(end) }
  }

  package var now: Moment { machine.now }

  // MARK: Users

  /// What a user asks for is done as ``ProcessHost`` does it.
  ///
  /// - Returns: the number of a message.
  @discardableResult package func ask(_ request: Request, of name: String) throws(ProcessHostError) -> UInt64?
  {
    core.advance()
    defer { settle() }
    switch request {
    case .start(let foreground): try start(name, foreground: foreground)
    case .run(let foreground):
      _ = try core.launch(["/bin/true"], name: name, foreground: foreground, descriptors: [-1, -1, -1])
    case .suspend(let isAgain): _ = try core.suspend(name, isAgain: isAgain)
    case .resume:
      if core.hasEndedWithState(name) { try start(name, foreground: false) } else { try core.resume(name) }
    case .hibernate(let isAgain): _ = try core.hibernate(name, isAgain: isAgain)
    case .terminate: try core.terminate(name)
    case .keep(let seconds):
      try core.keep(name, Exemption(seconds: seconds, reason: nil, now: core.now, wall: 0))
    case .endKeeping: try core.keep(name, nil)
    case .warn: try core.warn(name)
    case .notify(let message):
      if let number = try core.notify(name, message) { return number }
      return try core.launch(try manifest(of: name), for: message)
    }
    return nil
  }

  private func start(_ name: String, foreground: Bool) throws(ProcessHostError) {
    if try core.wake(name, foreground: foreground) { return }
    _ = try core.launch(try manifest(of: name), foreground: foreground)
  }

  private func manifest(of name: String) throws(ProcessHostError) -> HostManifest {
    guard let manifest = try core.configuration.catalog.find(name) else {
      throw ProcessHostError(.unknownApp(name))
    }
    return manifest
  }

  package func memoryIsShort() {
    core.memoryIsShort()
    settle()
  }

  /// What has become of a message: `nil` where it waits; why nobody has heard it.
  package func outcome(of number: UInt64, to name: String) -> (isKnown: Bool, isOver: Bool, text: String) {
    switch core.messages.outcome(number, of: name) {
    case .none: (false, true, "")
    case .waits: (true, false, "")
    case .answered(let reply): (true, true, "answered: \(reply ?? "")")
    case .lost(let why): (true, true, "lost: \(why)")
    }
  }

  // MARK: Programs

  /// A process connects, and joins.
  ///
  /// - Parameter other: whose process it is; `nil`: that of no app.
  package func join(_ name: String, asProcessOf other: String?, restarts: Bool) throws(ProcessHostError) {
    var pair: [Int32] = [-1, -1]
    guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &pair) == 0
    else { throw ProcessHostError(.system("a pair of sockets", errno)) }
    do throws(ProcessHostError) {
      core.advance()
      try core.join(
        pair[0], pid: other.flatMap { core.apps[$0]?.group.members().first } ?? VirtualGroup.firstPid,
        restarts: restarts)
    } catch {
      for one in pair { close(one) }
      throw error
    }
    if let other {
      disconnect(other)
      ends[other] = pair[1]
    }
    settle()
  }

  /// Whether there is a connection that its program has not closed.
  package func isConnected(_ name: String) -> Bool { ends[name] != nil }

  /// A program sends bytes.
  package func say(_ bytes: [UInt8], as name: String) {
    guard let end = ends[name] else { return }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        send(end, $0.baseAddress, min($0.count, 2048), Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
      }
      guard count > 0 else { break }
      rest = rest.dropFirst(count)
      hear()
    }
    settle()
  }

  /// What a program reads.
  package func read(_ name: String) -> (bytes: [UInt8], hasEnded: Bool) {
    guard let end = ends[name] else { return ([], true) }
    var result: [UInt8] = []
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    while true {
      let count = recv(end, &bytes, bytes.count, Int32(MSG_DONTWAIT))
      if count > 0 { result += bytes[..<count] } else { return (result, count == 0 || errno != EAGAIN) }
    }
  }

  package func disconnect(_ name: String) {
    if let end = ends.removeValue(forKey: name) { close(end) }
    settle()
  }

  /// A process ends by itself, or because it was asked to.
  package func exit(_ name: String) {
    (core.apps[name]?.group as? VirtualGroup)?.exit()
    if let end = ends.removeValue(forKey: name) { close(end) }
    settle()
  }

  /// What was to run on another thread has run.
  package func runAside(flushFails: Bool) {
    machine.flushFails = flushFails
    let all = machine.aside
    machine.aside = []
    for one in all { one() }
    settle()
  }

  // MARK: Time

  /// - Returns: `false` where something stays due, for which a host would spin.
  package func pass(_ span: Duration) -> Bool {
    let end = machine.now + span
    var turns = 0
    while let next = core.nextDeadline, next <= end {
      turns += 1
      guard turns < 10_000 else { return false }
      machine.now = max(machine.now, next)
      settle()
    }
    machine.now = end
    settle()
    return core.nextDeadline.map { $0 > machine.now } ?? true
  }

  private func hear() {
    for app in Array(core.apps.values).sorted(by: { $0.name < $1.name }) {
      guard let client = app.client else { continue }
      var polled = pollfd(fd: client.descriptor, events: Int16(POLLIN), revents: 0)
      while core.apps[app.name] === app, app.client === client, poll(&polled, 1, 0) > 0 {
        core.heard(from: app)
      }
    }
  }

  /// As the host's thread does, until nothing happens any more: it is woken again for what a turn of its has
  /// left to the next.
  private func settle() {
    for _ in 0..<100 {
      let before = (apps, saved)
      turn()
      if before == (apps, saved) { break }
    }
  }

  private func turn() {
    hear()
    for app in Array(core.apps.values).sorted(by: { $0.name < $1.name })
    where app.group.members().isEmpty {
      core.memberEnded(app)
    }
    core.advance()
    for app in Array(core.apps.values) where app.group.members().isEmpty { core.memberEnded(app) }
  }

  // MARK: What is seen

  /// All apps that run.
  package var apps: [String: Seen] {
    core.apps.mapValues { app in
      let group = app.group as? VirtualGroup
      let client = app.client
      return Seen(
        state: core.stateName(app), isStopping: core.system.state(of: app.id) == .stopping,
        hasProcess: group?.pid != nil, isFrozen: group?.isFrozen == true,
        isAskedToEnd: group?.isAskedToEnd == true, hasJoined: client != nil,
        questions: client?.questions.map(\.id) ?? [], tasks: Set((client?.tasks ?? [:]).keys),
        sockets: client?.sockets.count ?? 0, hasHeartbeat: client?.hasHeartbeat == true,
        answersUntil: client?.deadline,
        suspensionWaitsUntil: app.pending?.until, killAt: app.killAt, isSuspendedLater: app.pending != nil,
        messages: core.messages.waiting(app.name).count, scheduled: core.notifications.count(of: app.name),
        due: core.notifications.due.count { $0.app == app.name }, notes: app.notes)
    }
  }

  /// The states of all that are listed, those inside of programs included, as PROGRAM/APP.
  package var states: [String: String] { core.statesOfApps().mapValues(\.state) }

  /// Those that were ended with their state saved, and have not taken it.
  package var saved: Set<String> { Set((core.states?.all ?? [:]).keys) }

  /// What is kept for an app that does not run, in words; none: nothing.
  package func kept(for name: String) -> [String] {
    [
      core.messages.waiting(name).isEmpty ? nil : "messages that wait",
      core.notifications.count(of: name) == 0 ? nil : "notifications",
      core.notifications.due.contains { $0.app == name } ? "notifications that were not told" : nil,
      core.front.owner == name || core.front.shown == name ? "the foreground" : nil,
    ].compactMap(\.self)
  }

  /// What there may be of each at most.
  package static let limits = (
    questions: ProgramClient.mostQuestions, tasks: ProgramClient.mostTasks,
    messages: MessageLedger.mostWaiting,
    notifications: NotificationLedger.most, line: ProgramClient.longestLine, lines: ProgramClient.mostLines,
    state: SavedStates.largest
  )
}
