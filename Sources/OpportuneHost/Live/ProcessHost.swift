internal import COpportuneHost
import Foundation
internal import Glibc
package import OpportuneApps
internal import OpportuneBase

/// Apps that are Linux processes, not written for it: foreground, background, suspended, terminated.
///
/// One thread sleeps until a process ends or a limit is reached; without either there is no wake-up. The
/// methods may be called on any thread; they block while a group is stopped or moved, which takes
/// microseconds, and at most the configured limit where a process does not stop. When the last reference
/// goes, everything is thawed and runs on as it would without a host.
package final class ProcessHost: Sendable {
  private let engine: HostEngine
  private let catalog: ManifestCatalog

  /// - Parameters:
  ///   - key: of this host among others on the machine, as of its socket: see ``HostSocket/key(of:)``. What a
  ///     host of the same key has left is thawed, and its apps are this one's. No two may run at once.
  /// - Throws: ``ProcessHostError``: `backend`, `system`.
  package init(key: String, configuration: HostConfiguration = HostConfiguration()) throws(ProcessHostError) {
    catalog = configuration.catalog
    engine = try HostEngine(key: key, configuration: configuration)
    let engine = engine
    Thread.detachNewThread { engine.run() }
  }

  deinit { stop() }

  /// What is missing here, for people.
  package var notes: [String] { engine.locked { $0.notes } }

  /// Where the control groups of its apps are; `nil`: signals stop them.
  package var controlGroups: String? { engine.locked { $0.maker.tree?.path } }

  /// Thaws everything and ends; the apps run on as they would without a host. The next host of this process
  /// with the same key takes them in, and reaps those that this one has started. May be called again.
  package func stop() { engine.stop() }

  /// Makes a process an app, with all that descends from it, and what these start from then on.
  ///
  /// - Parameters:
  ///   - isTree: whether its descendants are taken; those of later are in any case.
  ///   - name: `nil`: as its program's.
  ///   - isExact: whether a name that is taken is refused, or a number added.
  ///   - restart: how its program is started anew when it has ended with its state saved or for memory;
  ///     `nil`: it is not.
  /// - Returns: its name, and what its environment should have as `OPPORTUNE_APP`.
  package func adopt(
    _ pid: Int32, isTree: Bool = true, name: String?, isExact: Bool = true, foreground: Bool = false,
    restart: RunDeclaration? = nil
  ) throws(ProcessHostError) -> (name: String, mark: String) {
    try engine.changing { core throws(ProcessHostError) in
      try core.adopt(
        pid, isTree: isTree, name: name, isExact: isExact, foreground: foreground, restart: restart)
    }
  }

  /// Starts a program as an app. It is this process's child; the host reaps it.
  ///
  /// - Parameter command: the path of the file, and its arguments.
  /// - Returns: its pid.
  package func launch(
    _ command: [String], name: String, foreground: Bool = false, descriptors: [Int32] = [-1, -1, -1]
  ) throws(ProcessHostError) -> Int32 {
    try engine.changing { core throws(ProcessHostError) in
      try core.launch(command, name: name, foreground: foreground, descriptors: descriptors)
    }
  }

  /// Has an app run: starts it by its manifest, or lets it go on where it is suspended.
  ///
  /// - Returns: the pid where it was started.
  /// - Throws: ``ProcessHostError``: `unknownApp` where it has no manifest, `manifest`, `terminal`,
  ///   `program`.
  @discardableResult package func start(_ name: String, foreground: Bool = false) throws(ProcessHostError)
    -> Int32?
  {
    guard try restore(name, foreground: foreground) else { return nil }
    let runs = try engine.changing { core throws(ProcessHostError) in
      try core.wake(name, foreground: foreground)
    }
    if runs { return nil }
    let manifest = try manifest(of: name)
    return try engine.changing { core throws(ProcessHostError) in
      // Another may have asked meanwhile.
      if try core.wake(name, foreground: foreground) { return nil }
      return try core.launch(manifest, foreground: foreground)
    }
  }

  /// Has an app go on that is hibernated by a checkpoint, and waits for that, though not for long: it does so
  /// whether anybody waits or not.
  ///
  /// - Returns: whether there is nothing more to wait for.
  /// - Throws: ``ProcessHostError``: `lifecycle` where it could not be restored.
  private func restore(_ name: String, foreground: Bool) throws(ProcessHostError) -> Bool {
    guard engine.locked({ $0.isCheckpoint(name) }) else { return true }
    let end = Date() + Self.longestRestore
    while let run = try engine.changing({ core throws(ProcessHostError) in
      try core.goOn(name, foreground: foreground)
    }) {
      guard run.wait(until: end) else { return false }
      guard run.isRestore, let outcome = run.outcome, outcome != .done else { continue }
      try engine.changing { core throws(ProcessHostError) in core.lookAtRestores() }
      if case .failed(let why) = outcome {
        let isKept = engine.locked { $0.isCheckpoint(name) }
        throw ProcessHostError(
          .lifecycle(
            name,
            (isKept
              ? "it could not be restored, and its checkpoint is kept: "
              : "it has ended: it was restored, and then CRIU failed: ") + why))
      }
    }
    return true
  }

  /// Seconds that who asks for an app waits for CRIU.
  private static let longestRestore = 3.0

  /// Of an app that does not run.
  private func manifest(of name: String) throws(ProcessHostError) -> HostManifest {
    // Inside of a program, which has none of the name, or does not run.
    if name.contains("/") { throw ProcessHostError(.unknownApp(name)) }
    if let manifest = engine.locked({ $0.declaration(of: name) }) { return manifest }
    if let manifest = try catalog.find(name) { return manifest }
    guard engine.locked({ $0.hasEndedWithState(name) }) else { throw ProcessHostError(.unknownApp(name)) }
    throw ProcessHostError(
      .lifecycle(name, "it is hibernated, with its state saved, and has no manifest any more"))
  }

  /// Sends an app a message, whatever its state; does not wait for its program's answer. One that does not
  /// run is started in background by its manifest, and is told when it joins.
  ///
  /// - Returns: the message's number, for ``reply(to:of:)``.
  /// - Throws: ``ProcessHostError``: `unknownApp`, `value` where it is too long, `lifecycle` where nobody
  ///   would hear it or too many wait; and as ``start(_:foreground:)``.
  package func notify(_ name: String, _ message: Message) throws(ProcessHostError) -> UInt64 {
    let told = try engine.changing { core throws(ProcessHostError) in try core.notify(name, message) }
    if let told { return told }
    let manifest = try manifest(of: name)
    return try engine.changing { core throws(ProcessHostError) in
      // Another may have asked meanwhile.
      if let told = try core.notify(name, message) { return told }
      return try core.launch(manifest, for: message)
    }
  }

  /// Whether the program has answered a message, and what it has replied.
  ///
  /// - Throws: ``ProcessHostError``: `value` where the message is not known, `lifecycle` where nobody has
  ///   heard it.
  package func reply(to number: UInt64, of name: String) throws(ProcessHostError) -> (
    isAnswered: Bool, reply: String?
  ) {
    let outcome = try engine.changing { core throws(ProcessHostError) in
      try core.outcome(of: number, name)
    }
    if case .answered(let reply) = outcome { return (true, reply) }
    return (false, nil)
  }

  /// Brings an app to the foreground; the one that was there goes to the background. One that does not run is
  /// started by its manifest.
  package func bringForward(_ name: String) throws(ProcessHostError) { try start(name, foreground: true) }

  /// Stops everything in an app, unless it holds locks of files: then it may go on for the policy's grace,
  /// and is looked at again.
  ///
  /// - Parameters:
  ///   - locks: instead of the configuration's.
  ///   - isAgain: whether this asks what became of a request that was told to wait.
  /// - Returns: how long it goes on until it is looked at again, and why; `nil`: it is suspended.
  /// - Throws: ``ProcessHostError``: `exempt`, `locked`, `notStopped`, `unknownApp`.
  @discardableResult package func suspend(
    _ name: String, locks: LockPolicy.Answer? = nil, isAgain: Bool = false
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    try engine.changing { core throws(ProcessHostError) in
      try core.suspend(name, locks: locks, isAgain: isAgain)
    }
  }

  /// Stops everything in an app as ``suspend(_:locks:isAgain:)`` does, and pages out what it has in main
  /// memory, as far as the kernel takes it; does not wait for that, of whose end the app's notes tell. Where
  /// the kernel does not take it, it is written to files and ended, where CRIU does that, and comes back by
  /// ``resume(_:)`` and ``bringForward(_:)``; or a program that saves its state is ended, and started anew
  /// with it by these.
  ///
  /// - Throws: ``ProcessHostError``: as that, and `notHibernated`: it goes on as it did.
  @discardableResult package func hibernate(
    _ name: String, locks: LockPolicy.Answer? = nil, isAgain: Bool = false
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    try engine.changing { core throws(ProcessHostError) in
      try core.hibernate(name, locks: locks, isAgain: isAgain)
    }
  }

  /// Exempts an app from suspension.
  ///
  /// - Parameter seconds: from now on; `nil`: until it is taken back.
  /// - Throws: ``ProcessHostError``: `value`, `unknownApp`, `lifecycle` where it does not run.
  package func keep(_ name: String, seconds: Double? = nil, reason: String? = nil) throws(ProcessHostError) {
    try engine.changing { core throws(ProcessHostError) in
      try core.keep(
        name, Exemption(seconds: seconds, reason: reason, now: core.now, wall: Int64(time(nil))))
    }
  }

  /// Takes an exemption back; also where there is none.
  package func endKeeping(_ name: String) throws(ProcessHostError) {
    try engine.changing { core throws(ProcessHostError) in try core.keep(name, nil) }
  }

  /// Lets an app go on that is suspended or hibernated, in the background. One that was ended with its state
  /// saved is started anew, as by ``start(_:foreground:)``.
  package func resume(_ name: String) throws(ProcessHostError) {
    guard try restore(name, foreground: false) else { return }
    if engine.locked({ $0.hasEndedWithState(name) }) {
      try start(name)
      return
    }
    try engine.changing { core throws(ProcessHostError) in try core.resume(name) }
  }

  /// Sends SIGTERM, and ends what is left after the grace; does not wait for that. An app of which nothing
  /// executes is ended at once, without running.
  package func terminate(_ name: String) throws(ProcessHostError) {
    try engine.changing { core throws(ProcessHostError) in try core.terminate(name) }
  }

  /// A process that is of an app joins, to be told before the host acts.
  ///
  /// - Parameters:
  ///   - descriptor: its connection, which is the host's unless this throws.
  ///   - pid: as the kernel knows it of the connection.
  ///   - restarts: whether it saves its state when asked, and takes it when it is started anew.
  /// - Throws: ``ProcessHostError``: `process` where it is of no app, `lifecycle`.
  package func join(_ descriptor: Int32, pid: Int32, restarts: Bool = false) throws(ProcessHostError) {
    try engine.changing { core throws(ProcessHostError) in
      try core.join(descriptor, pid: pid, restarts: restarts)
    }
  }

  /// Memory is short on the machine, somebody says: does what the host does when the kernel says so.
  ///
  /// - Returns: what was begun, for people; nothing where nothing was to be done.
  package func memoryIsShort() throws(ProcessHostError) -> [String] {
    try engine.changing { core throws(ProcessHostError) in core.memoryIsShort() }
  }

  /// Tells an app that has joined that memory is short.
  package func warn(_ name: String) throws(ProcessHostError) {
    try engine.changing { core throws(ProcessHostError) in try core.warn(name) }
  }

  /// Those that have a manifest or are kept to be started anew, do not run, and may be shown, by name.
  package func known() -> [AppEntry] {
    let (running, runs, notifications) = engine.locked {
      (Set($0.apps.keys).union($0.endedWithState.map(\.id)), $0.states?.runs ?? [:], $0.notifications)
    }
    let declared = catalog.all().filter { $0.isShown && runs[$0.name] == nil }.map(\.name) + runs.keys
    return declared.filter { !running.contains($0) }.sorted().map { name in
      .withoutProcess(name, .terminated, scheduled: notifications.count(of: name))
    }
  }

  /// The display whose focus is followed, for people; `nil`: none by now.
  package var followed: String? { engine.locked { $0.followed } }

  /// All apps that run, by name.
  package func apps() -> [AppEntry] {
    engine.locked { $0.entries() }.map { entry, group, denied in
      var entry = entry
      if entry.pids.isEmpty { return entry }
      if let held = HeldDevices.text(of: entry.pids, denied) { entry.notes.append(held) }
      let memory = MemoryUse.look(group, entry.pids)
      (entry.memoryBytes, entry.memoryBy) = (memory.bytes, memory.by)
      return entry
    }
  }

  /// What an app has open that it may not open now, for people; `nil`: nothing.
  package func heldDevices(of name: String) -> String? {
    let (members, denied) = engine.locked { core in
      let app = core.apps[name]
      return (app?.group.members() ?? [], app?.limits.denied)
    }
    return HeldDevices.text(of: members, denied)
  }

  /// What could not be done for an app; none where it does not run.
  package func notes(of name: String) -> [String] {
    engine.locked { core in
      if let app = core.apps[name] { return app.notes + app.group.notes + app.limits.notes }
      return core.endedWithState.first { $0.id == name }?.notes ?? []
    }
  }
}

/// What wakes the host's thread; open as long as anybody may tell it. Any thread.
private final class WakeEvent: Sendable {
  let descriptor: Int32

  init() throws(ProcessHostError) {
    descriptor = opp_host_event_open()
    if descriptor < 0 { throw ProcessHostError(.system("the host's thread cannot be woken", -descriptor)) }
  }

  deinit { if descriptor >= 0 { close(descriptor) } }

  func tell() { opp_host_event_tell(descriptor) }
}

/// The host's state under its lock, and the loop of its thread.
private final class HostEngine: @unchecked Sendable {
  // Sendable: the core is touched under the lock alone, the descriptor never changes.
  private let lock = Lock()
  private let core: HostCore
  private var hasStopped = false
  /// What was told of the apps, where anybody wants to hear.
  private var told: [String: (app: HostedProcess?, state: String)] = [:]
  private let wake: WakeEvent
  private let front: (any FrontSource)?
  private let pressure: MemoryPressure?

  init(key: String, configuration: HostConfiguration) throws(ProcessHostError) {
    front = configuration.front
    pressure = configuration.pressure
    let wake = try WakeEvent()
    self.wake = wake
    core = try HostCore(
      key: key, configuration: configuration, runAside: { work in Thread.detachNewThread(work) },
      wakeUp: { wake.tell() })
  }

  func locked<Result>(_ body: (HostCore) -> Result) -> Result { lock.withLock { body(core) } }

  /// Tells what has changed since it was last told. Called under the lock.
  private func tellChanges() {
    guard let changed = core.configuration.changed, !hasStopped else { return }
    var changes: [AppChange] = []
    let states = core.statesOfApps()
    for (name, before) in told {
      // The same app has another object after it was ended with its state saved.
      if let state = states[name], state.app === before.app || state.app == nil || before.app == nil {
        continue
      }
      told[name] = nil
      changes.append(AppChange(name: name, state: nil))
    }
    for (name, now) in states {
      if told[name]?.state != now.state { changes.append(AppChange(name: name, state: now.state)) }
      told[name] = now
    }
    if !changes.isEmpty { changed(changes) }
  }

  /// The loop looks again at what it waits for.
  func changing<Result>(
    _ body: (HostCore) throws(ProcessHostError) -> Result
  ) throws(ProcessHostError) -> Result {
    defer { wake.tell() }
    return try lock.withLock { () throws(ProcessHostError) -> Result in
      defer { tellChanges() }
      core.advance()
      return try body(core)
    }
  }

  func stop() {
    lock.withLock {
      guard !hasStopped else { return }
      hasStopped = true
      core.leave()
    }
    wake.tell()
  }

  /// What an app's descriptor is waited for.
  private struct Watched {
    let name: String
    let polled: pollfd
  }

  func run() {
    let follower = front?.makeFollower()
    var pressure = self.pressure
    var ready: Set<Int32> = []
    let groups = locked { $0.configuration.groupPressures }
    while true {
      for one in groups where ready.contains(one.descriptor) { one.take() }
      let heard = follower?.advance(ready, now: locked { $0.now }) ?? []
      let (watched, clients, sockets, next, isOver) = lock.withLock {
        () -> ([Watched], [Watched], [Watched], Moment?, Bool) in
        for event in heard where !hasStopped { core.heard(event) }
        if groups.contains(where: { ready.contains($0.descriptor) }) { core.looksAtGroups = core.now }
        core.advance()
        tellChanges()
        let watched = core.apps.values.filter { $0.watched >= 0 }.map {
          Watched(name: $0.name, polled: pollfd(fd: $0.watched, events: Int16(POLLIN), revents: 0))
        }
        let clients = core.apps.values.compactMap { app in
          app.client.map {
            let events = Int16(POLLIN | ($0.hasUnsent ? POLLOUT : 0))
            return Watched(name: app.name, polled: pollfd(fd: $0.descriptor, events: events, revents: 0))
          }
        }
        let sockets = core.apps.values.flatMap { app in
          core.watchedSockets(of: app).filter { $0.isLookedAt(at: core.now) }.map {
            Watched(
              name: app.name, polled: pollfd(fd: $0.descriptor, events: KeptSocket.events, revents: 0))
          }
        }
        return (watched, clients, sockets, core.nextDeadline, hasStopped)
      }
      if isOver { return }
      var polled = (watched + clients + sockets).map(\.polled)
      polled.append(pollfd(fd: wake.descriptor, events: Int16(POLLIN), revents: 0))
      polled += follower?.waits ?? []
      polled += groups.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
      if let pressure { polled.append(pollfd(fd: pressure.descriptor, events: pressure.events, revents: 0)) }
      // Rounded up, so that the last wait is not a spin.
      let due = [next, follower?.nextDeadline].compactMap(\.self).min()
      let left = due.map { Int32(clamping: Int64(max(0, ($0 - locked { $0.now }).inSeconds) * 1000) + 1) }
      guard poll(&polled, nfds_t(polled.count), left ?? -1) >= 0 || errno == EINTR else { return }
      opp_host_event_take(wake.descriptor)
      if let told = pressure, let events = polled.last?.revents, events != 0 {
        if told.hears(events) { _ = lock.withLock { core.memoryIsShort() } } else { pressure = nil }
      }
      let count = watched.count + clients.count + sockets.count
      ready = Set(polled.dropFirst(count + 1).filter { $0.revents != 0 }.map(\.fd))
      lock.withLock {
        for (index, one) in watched.enumerated() where polled[index].revents != 0 {
          // Another descriptor of that number, by now, is looked at for nothing.
          if let app = core.apps[one.name], app.watched == one.polled.fd { core.memberEnded(app) }
        }
        for (index, one) in clients.enumerated() where polled[watched.count + index].revents != 0 {
          if let app = core.apps[one.name], app.client?.descriptor == one.polled.fd { core.heard(from: app) }
        }
        let first = watched.count + clients.count
        for (index, one) in sockets.enumerated() where polled[first + index].revents != 0 {
          if let app = core.apps[one.name] { core.dataArrived(for: app) }
        }
      }
    }
  }
}
