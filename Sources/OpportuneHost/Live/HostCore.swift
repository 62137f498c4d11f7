internal import COpportuneHost
internal import Glibc
internal import OpportuneApps
internal import OpportuneBase

/// Apps that are Linux processes: carries out the effects of the pure ``AppSystem`` on process groups.
///
/// Decisions are the system's. What a user asks for is said in its events: `suspend` is the end of the task
/// that the host holds for a program which knows nothing of tasks, `resume` is a wake, whose time is given
/// back at once because the task is held again. The system has no events of its own for these two. Callbacks
/// of such a program return at once, but for the last, which is SIGTERM. Broken best practices are not
/// counted: they are for those who were told of them.
///
/// Used by one thread at a time.
final class HostCore {
  let configuration: HostConfiguration
  let maker: GroupMaker
  let limits: BackgroundLimits
  private let record: HostRecord?
  /// Of apps that were ended with it; `nil`: none are saved.
  let states: SavedStates?
  /// Of apps that are files alone; `nil`: there are none.
  let checkpoints: Checkpoints?
  /// Those that CRIU is making again.
  var restores: [String: PendingRestore] = [:]
  var system: AppSystem
  private let key: String
  /// What stands in for the machine; `nil`: nothing, apps are processes.
  let standIn: MachineStandIn?
  private let began = ContinuousClock.now
  private(set) var apps: [String: HostedProcess] = [:]
  /// Of all that ever ran, so that a name that comes again needs no new record.
  private var ids: [Registration: AppID] = [:]
  private var names: [AppID: String] = [:]

  /// What the system's record of an app depends on.
  private struct Registration: Hashable {
    let name: String
    let exitsOnSuspend: Bool
    let mayKeepAlive: Bool
  }

  /// Who is in front by the display's focus.
  var front = FrontPolicy()
  /// Groups of processes of which none is an app's, since the last app began: each look is at all processes.
  var jobsOfNone: Set<pid_t> = []
  /// The display that is followed; `nil`: none by now.
  var followed: String?

  /// What is done when memory is short.
  var shortage: ShortagePolicy
  /// When groups with a limit are looked at again.
  var looksAtGroups: Moment?
  /// What the paging out that is under way for a shortage has done so far.
  var pagedForShortage = ShortagePolicy.Paged()
  /// Those that have not been told of.
  var pageOuts: [PageOut] = []
  /// Runs what takes long, on another thread.
  let runAside: (@escaping @Sendable () -> Void) -> Void
  /// Has ``advance()`` called soon. Any thread.
  let wakeUp: @Sendable () -> Void

  /// What became of suspensions that waited for locks, for who asks again.
  var outcomes: [String: ProcessHostError] = [:]
  /// What has become of messages, for who asks.
  var messages = MessageLedger()
  /// What programs have scheduled.
  var notifications = NotificationLedger()
  /// Wakes the host when the wall clock is set; `nil`: nothing was scheduled yet.
  var clockWatch: WallClockWatch?

  /// - Parameters:
  ///   - runAside: runs what takes long, on another thread.
  ///   - wakeUp: has ``advance()`` called soon. Any thread.
  ///   - standIn: what stands in for the machine; `nil`: nothing.
  init(
    key: String, configuration: HostConfiguration, standIn: MachineStandIn? = nil,
    runAside: @escaping (@escaping @Sendable () -> Void) -> Void,
    wakeUp: @escaping @Sendable () -> Void
  ) throws(ProcessHostError) {
    (self.key, self.standIn) = (key, standIn)
    (self.runAside, self.wakeUp) = (runAside, wakeUp)
    shortage = configuration.shortage
    self.configuration = configuration
    record = configuration.record.map { HostRecord(at: $0) }
    states = configuration.states.map { SavedStates(in: $0) }
    checkpoints = configuration.states.map { Checkpoints(in: $0, log: configuration.log) }
    if standIn != nil {
      maker = GroupMaker(ofNone: key)
    } else {
      maker = try GroupMaker(
        key: key, backend: configuration.backend, record: record, controllers: configuration.controllers,
        starter: configuration.starter?.pid)
    }
    limits = BackgroundLimits(
      devices: configuration.deniedDevices, network: configuration.network)
    do throws(PolicyError) {
      system = try AppSystem(policy: configuration.policy)
    } catch {
      throw ProcessHostError(.lifecycle("", "\(error)"))
    }
    if standIn == nil { takeLeftovers() }
  }

  /// The apps of a host before are this one's.
  private func takeLeftovers() {
    LeftChildren.reap()
    settleCheckpoints()
    let leftovers = maker.sweep()
    MemoryGroup.sweep(key: key)
    CPUShare.sweep(key: key)
    let groups = leftovers.compactMap(\.group.cgroup)
    StorageGroup.sweep(key: key, groups: groups, root: StorageSupport.system.blkio)
    _ = record?.keep(Set(leftovers.compactMap(\.mark)))
    for left in leftovers {
      // Two of one name are two apps.
      guard let name = try? freeName(left.name, isExact: false, startsAnew: true) else { continue }
      let declaration = name == left.name ? declaration(of: name) : nil
      var declared = declaration ?? (try? configuration.catalog.find(left.name))
      // It is in background now, and goes on.
      declared?.exitsOnSuspend = false
      // Fails where its name is none of ours: it is left running.
      let members = left.group.members()
      let first = members.first ?? 0
      try? begin(
        name, group: left.group, mark: left.mark ?? maker.mark(of: name), first: first,
        memory: MemoryGroup.left(key: key, name: left.name, member: first), foreground: false,
        child: LeftChildren.take(among: members), declared: declared, isLeft: true,
        notes: ["it was left by a host before"])
      if let app = apps[name] {
        goOnEnding(app)
        if name == left.name { followCheckpoint(of: app) }
      }
    }
    for name in checkpoints?.begun.keys.sorted() ?? [] {
      configuration.log(
        "CRIU is at work on a checkpoint of '\(name)', no app of this host: the next looks again")
    }
    for name in (states?.runs ?? [:]).keys { undeclare(name) }
  }

  /// What is missing here, for people.
  var notes: [String] {
    maker.notes + limits.notes(hasGroups: maker.tree != nil) + storageNotes
      + (configuration.checkpoints?.lack.map { ["no checkpoints are made: \($0)"] } ?? [])
  }

  private var storageNotes: [String] {
    guard configuration.storage.rate != nil else { return [] }
    let group = maker.tree == nil ? nil : ControlGroupTree.ownGroup()
    guard let lack = StorageSupport.system.lack(configuration.storage, inGroup: group) else { return [] }
    return [lack.message]
  }

  var now: Moment { standIn?.now() ?? Moment.zero + began.duration(to: .now) }

  // MARK: What is asked for

  /// - Parameters:
  ///   - isTree: whether what descends from the process is taken as well.
  ///   - isExact: whether the name is refused where it is taken, or made another.
  ///   - restart: how its program is started anew; `nil`: it is not.
  /// - Returns: its name and mark.
  func adopt(
    _ pid: pid_t, isTree: Bool, name wanted: String?, isExact: Bool, foreground: Bool,
    restart: RunDeclaration? = nil
  ) throws(ProcessHostError) -> (name: String, mark: String) {
    let name = try freeName(
      wanted ?? AppName.derived(from: ProcessTable.command(of: pid) ?? ""), isExact: isExact)
    guard pid > 1 else { throw ProcessHostError(.process(pid, "it is the system's first")) }
    guard pid != getpid(), pid != maker.warden?.pid, pid != configuration.starter?.pid else {
      throw ProcessHostError(.process(pid, "it is the host"))
    }
    guard let status = ProcessStat(of: pid), !status.hasEnded, let user = ProcessTable.user(of: pid) else {
      throw ProcessHostError(.process(pid, "it has ended, or there never was one"))
    }
    guard !status.isOfKernel else { throw ProcessHostError(.process(pid, "it is a thread of the kernel")) }
    guard user == geteuid() else { throw ProcessHostError(.otherUser(pid, owner: user)) }
    guard !ProcessTable.ancestors(of: getpid()).contains(pid) else {
      throw ProcessHostError(.process(pid, "the host descends from it"))
    }
    let look = ProcessLook()
    if let other = apps.values.first(where: { $0.group.members(by: look).contains(pid) }) {
      throw ProcessHostError(.process(pid, "it belongs to the app '\(other.name)'"))
    }
    if isTree { try checkTree(of: status) }
    var declared: HostManifest?
    if let restart { declared = try declare(name, restart) }
    defer { undeclare(name) }  // unless it has begun
    let mark = maker.mark(of: name)
    var (group, notes) = try maker.adopt(status, isTree: isTree, name: name, mark: mark)
    // A socket is of the group in which it was made.
    if isTree, limits.network != .none {
      notes.append("sockets that it had before it was taken in are let through in background")
    }
    // What a tree has by now stays charged to the groups where it was. Who is taken alone, as by `opportune
    // run`, becomes its program then, which begins with nothing.
    let memory = isTree ? nil : makeMemory(name, group as? ControlGroup)
    try begin(
      name, group: group, mark: mark, first: pid, memory: memory?.adopt(pid) == 0 ? memory : nil,
      foreground: foreground, declared: declared, notes: notes)
    if isTree, !foreground, let app = apps[name] { judgeSoonByDevices(app) }
    return (name, mark)
  }

  /// None of them may be of another app or user, or one on which all hangs. Who is made while the tree is
  /// taken is of the same.
  private func checkTree(of root: ProcessStat) throws(ProcessHostError) {
    var tree = ProcessTree([root.id])
    let look = ProcessLook()
    let below = tree.look(at: look.all)
    let session = SessionProcesses(display: configuration.display)
    for one in [root] + below {
      guard let why = session.why(one.pid) else { continue }
      throw ProcessHostError(
        .process(root.pid, one.pid == root.pid ? why : "process \(one.pid) below it: \(why)"))
    }
    let others = apps.values.map { ($0.name, Set($0.group.members(by: look))) }
    for one in below {
      if let (name, _) = others.first(where: { $0.1.contains(one.pid) }) {
        throw ProcessHostError(.process(root.pid, "process \(one.pid) below it belongs to the app '\(name)'"))
      }
      guard let user = ProcessTable.user(of: one.pid), user != geteuid() else { continue }
      throw ProcessHostError(.otherUser(one.pid, owner: user))
    }
  }

  /// - Parameter startsAnew: whether it may be that of an app which has saved its state.
  func freeName(
    _ wanted: String, isExact: Bool, startsAnew: Bool = false
  ) throws(ProcessHostError) -> String {
    try AppName.check(wanted)
    func isTaken(_ name: String) -> Bool {
      apps[name] != nil || checkpoints?.all[name] != nil || !startsAnew && isKept(name)
    }
    guard isTaken(wanted) else { return wanted }
    if isExact { throw apps[wanted] != nil ? ProcessHostError(.nameTaken(wanted)) : known(wanted) }
    for number in 2..<10_000 where !isTaken("\(wanted)-\(number)") {
      try AppName.check("\(wanted)-\(number)")
      return "\(wanted)-\(number)"
    }
    throw ProcessHostError(.nameTaken(wanted))
  }

  func begin(
    _ name: String, group: any ProcessGroup, mark: String, first: pid_t, memory: MemoryGroup?,
    foreground: Bool, child: HostChild? = nil, declared: HostManifest? = nil, limits: AppLimits? = nil,
    reason: LaunchReason = .user, isLeft: Bool = false, notes: [String]
  ) throws(ProcessHostError) {
    try AppName.check(name)
    let registration = Registration(
      name: name, exitsOnSuspend: declared?.exitsOnSuspend == true,
      mayKeepAlive: declared?.mayKeepAlive != false)
    let id =
      ids[registration]
      ?? system.register(
        Manifest(
          identifier: name, backgroundModes: registration.mayKeepAlive ? [.voip] : [],
          exitsOnSuspend: registration.exitsOnSuspend))
    ids[registration] = id
    names[id] = name
    outcomes[name] = nil
    (group as? ControlGroup)?.follow(mark, by: maker)
    let classes = AppClass(
      first, shares: configuration.usesClassGroups, key: key, name: name, group: group, isLeft: isLeft)
    let app = HostedProcess(
      id: id, name: name, group: group, mark: mark, classes: classes, memory: memory,
      limits: limits ?? self.limits(name, group.cgroup, declared), child: child, declared: declared,
      launched: reason, notes: notes, now: now)
    apps[name] = app
    app.note(maker.note(name, mark, group))
    do throws(ProcessHostError) {
      try post(foreground ? .launch : .launchInBackground(reason), to: app) { core in core.hold(app) }
    } catch {
      apps[name] = nil
      app.limits.lift(group.members())
      maker.forget(mark)
      classes.remove()
      memory?.remove()
      throw error
    }
    if foreground { front.said(name) }
    watch(app)
    lookWhetherFocused(app)
  }

  /// What is to count the memory of an app that begins in it.
  func makeMemory(_ name: String, _ group: ControlGroup?) -> MemoryGroup? {
    configuration.usesMemoryGroups ? MemoryGroup.make(key: key, name: name, group: group) : nil
  }

  /// - Parameter group: the app's control group, if it has one.
  func limits(_ name: String, _ group: String?, _ declared: HostManifest?) -> AppLimits {
    AppLimits(
      limits, group: group, kept: declared?.kept(of: Set(limits.devices.devices.keys)) ?? [],
      network: declared?.network ?? limits.network,
      storage: AppStorage(
        declared?.storage ?? configuration.storage, key: key, name: name, group: group))
  }

  func app(_ name: String) throws(ProcessHostError) -> HostedProcess {
    if let app = apps[name] { return app }
    if let (app, _) = inner(name) {
      throw ProcessHostError(
        .lifecycle(
          name, "it is inside of '\(app.name)': it can be brought to the front, suspended and terminated"))
    }
    throw isKept(name) ? known(name) : ProcessHostError(.unknownApp(name))
  }

  func bringForward(_ name: String) throws(ProcessHostError) {
    try moveForward(try app(name))
    front.said(name)
  }

  func moveForward(_ app: HostedProcess) throws(ProcessHostError) {
    if try goOnLater(app, foreground: true) { return }
    try checkLives(app)
    takeBackSuspension(of: app)
    try post(.bringForward, to: app)
    if app.mayBeSwapped { pageIn(app) }
    hold(app)
  }

  /// It has not been asked to end.
  func checkLives(_ app: HostedProcess) throws(ProcessHostError) {
    guard system.state(of: app.id) == .terminated else { return }
    throw ProcessHostError(.lifecycle(app.name, "it is being ended; ask again when it has"))
  }

  /// Has an app that is there run.
  ///
  /// - Returns: `false` where there is none.
  func wake(_ name: String, foreground: Bool) throws(ProcessHostError) -> Bool {
    if let (app, number) = inner(name) {
      if foreground { try ask(.bringForward, of: number, in: app) } else { try resume(app.name) }
      return true
    }
    guard let app = apps[name] else { return false }
    try checkLives(app)
    if foreground { try bringForward(name) } else { try resume(name) }
    return true
  }

  /// - Throws: ``ProcessHostError``: `notStopped` where it stops later, `lifecycle` where it is terminated.
  func stop(_ app: HostedProcess) throws(ProcessHostError) {
    try leaveForeground(app)
    if let task = app.task {
      app.task = nil
      try post(.does(.endTask(task)), to: app)
    } else if system.state(of: app.id) == .stopping {
      // It could not stop in time when it was asked before.
      if let event = carryOut(.lifecycle(.stopExecution), of: app) { try post(event, to: app) }
    }
    if system.state(of: app.id) == .stopping {
      throw ProcessHostError(.notStopped(app.group.members(), after: configuration.freezeLimit))
    }
  }

  func leaveForeground(_ app: HostedProcess) throws(ProcessHostError) {
    if system.state(of: app.id)?.isForeground == true { try post(.leave, to: app) }
    if app.declared?.exitsOnSuspend == true, system.state(of: app.id) == .terminated {
      throw ProcessHostError(.lifecycle(app.name, "it is terminated instead, as its manifest says"))
    }
  }

  func resume(_ name: String) throws(ProcessHostError) {
    if let (outer, _) = inner(name) { return try resume(outer.name) }
    let app = try app(name)
    try checkLives(app)
    if try goOnLater(app, foreground: false) { return }
    takeBackSuspension(of: app)
    guard let state = system.state(of: app.id), [.suspended, .stopping, .hibernated].contains(state) else {
      return
    }
    try post(.completion, to: app)
    hold(app)
    try post(.does(.handled), to: app)
    // Its window has the focus still, and nobody has put another in front.
    if front.owner == name, front.shown == name { try moveForward(app) }
  }

  /// - Parameter forMemory: whether it may be started anew for all that.
  func terminate(_ name: String, forMemory: Bool = false) throws(ProcessHostError) {
    if let (app, number) = inner(name) { return try ask(.terminate, of: number, in: app) }
    let app = apps[name]
    app?.isEndedForMemory = forMemory
    if app == nil, checkpoints?.all[name] != nil { return dropCheckpoint(name) }
    if states?.all[name] != nil || app == nil && states?.runs[name] != nil {
      states?.remove(name)  // who is ended is not to go on as it was
      if app == nil { return forget(name) }
    }
    try end(try self.app(name))
  }

  func end(_ app: HostedProcess) throws(ProcessHostError) {
    app.pending = nil
    app.client?.farewell = nil
    try post(.terminate, to: app)
    guard system.state(of: app.id) == .terminated, app.checkpoint == nil, app.group.members().isEmpty else {
      return
    }
    ended(app)
  }

  /// All apps by name, without their memory and the devices that they have open: to look at those takes a
  /// while, and needs nothing of this.
  func entries() -> [(entry: AppEntry, memory: MemoryGroup?, denied: DeviceList?)] {
    let look = ProcessLook()
    let running = apps.values.map { app in
      let members = app.group.members(by: look)
      let entry = AppEntry(
        id: app.name, pids: members.sorted(),
        state: stateName(app),
        cgroup: app.group.cgroup, cpuSeconds: app.group.cpuTime(by: look).inSeconds,
        memoryBytes: 0, memoryBy: nil,
        hibernatedBy: system.state(of: app.id) == .hibernated ? (app.hasFreed ? .pagedOut : .frozen) : nil,
        keptBy: (app.declaredKeep.map { [$0] } ?? [])
          + (app.exemption.map { [$0.text] } ?? [])
          + (app.client?.tasks.values.sorted().map { "background task: \($0)" } ?? []),
        keptSockets: app.client?.sockets.count ?? 0, scheduled: notifications.count(of: app.name),
        notes: app.notes + app.group.notes + app.limits.notes)
      return (entry, app.memory, app.limits.denied)
    }
    let others = apps.values.flatMap { innerEntries(of: $0) } + endedWithState
    return (running + others.map { ($0, nil, nil) }).sorted { $0.entry.id < $1.entry.id }
  }

  func stateName(_ app: HostedProcess) -> String {
    (system.state(of: app.id) ?? .terminated).operational.rawValue
  }

  // MARK: What happens

  /// Handles what is due by now.
  func advance() {
    LeftChildren.reap()
    lookAtPageOuts()
    lookAtRestores()
    lookAtGroups()
    if let effects = try? system.advance(to: now) { carryOut(effects) }
    fireNotifications()
    carryOut(front.advance(front: frontApp?.name, now: now))
    let steps: [(HostedProcess) -> Void] = [
      look(at:), lookAtJoin(of:), lookAtFlush(of:), lookAtCheckpoint(of:), judgeByDevices, lookAtTimes(of:),
    ]
    for app in apps.values {
      // Each may end it, and another may have its name then.
      for step in steps where apps[app.name] === app { step(app) }
    }
  }

  private func lookAtTimes(of app: HostedProcess) {
    if app.exemption?.isOver(at: now) == true { app.exemption = nil }
    if let pending = app.pending, pending.until <= now { lookAgain(at: app, pending) }
    if let end = app.suspendsAt, end <= now, apps[app.name] === app { backgroundIsOver(app) }
    if let end = hibernatesAt(app), end <= now, apps[app.name] === app { hibernateUnused(app) }
    if let end = app.killAt, end <= now, apps[app.name] === app {
      app.killAt = nil
      kill(app)
    }
  }

  /// When something is due next, without anybody's doing.
  var nextDeadline: Moment? {
    let own = apps.values.flatMap {
      [
        $0.client?.deadline, $0.exemption?.end, $0.pending?.until, $0.suspendsAt, hibernatesAt($0), $0.killAt,
        looksAtSockets(of: $0), $0.joinsUntil,
      ].compactMap(\.self)
    }
    return (own + [system.nextDeadline, front.leavesAt, looksAtGroups, notificationFires].compactMap(\.self))
      .min()
  }

  /// One member of an app has ended: watches another, or the app has ended.
  func memberEnded(_ app: HostedProcess) {
    app.reap()
    watch(app)
    stopAgain(app)
  }

  /// Has its end seen. While CRIU is at it, that ends its processes, and has the word.
  func watch(_ app: HostedProcess) {
    if app.watched >= 0 { close(app.watched) }
    app.watched = -1
    // Whoever ends between the list and the descriptor leaves another, or none. A list is made over a while:
    // it may lack a child that was born meanwhile, and its parent that has ended since. The next has it.
    var wasEmpty = false
    while apps[app.name] === app {
      let members = app.group.members()
      guard !members.isEmpty else {
        if app.checkpoint != nil { return }
        if wasEmpty { return ended(app) }
        wasEmpty = true
        continue
      }
      if standIn != nil { return }  // it tells of the end itself
      wasEmpty = false
      for pid in members {
        let descriptor = opp_host_pidfd_open(pid)
        if descriptor >= 0 {
          app.watched = descriptor
          return
        }
        guard descriptor == -ESRCH else {
          return app.note(["its end cannot be seen: \(errorText(-descriptor))"])
        }
      }
    }
  }

  func ended(_ app: HostedProcess) {
    guard apps[app.name] === app else { return }
    if app.watched >= 0 { close(app.watched) }
    apps[app.name] = nil
    states?.discard(app.name)
    dropState(of: app, app.pending?.saving)
    if app.pending?.saving != nil {
      outcomes[app.name] = ProcessHostError(
        .notHibernated(app.name, "it has ended before its state was saved"))
    }
    app.pageOut?.cancel()
    app.pageIn?.cancel()
    messages.lose(app.name, "the app has ended")
    if !app.isEndedForMemory { undeclare(app.name) }
    forgetNotifications(of: app)
    app.client?.close("the app has ended")
    app.client = nil
    front.ended(app.name)
    app.leaveChild()
    app.limits.lift([])
    app.group.remove()
    maker.forget(app.mark)
    app.classes.remove()
    app.memory?.remove()
    // Refused by no state that an app can have here.
    if let effects = try? system.handle(.app(app.id, .exited), at: now) { carryOut(effects) }
    carryOut(system.takeEffects())
    startAgain(app)
  }

  /// Leaves all apps running as they would without a host.
  func leave() {
    leaveCheckpoints()
    for app in apps.values {
      app.pageOut?.cancel()
      app.pageIn?.cancel()
      try? app.group.thaw()
      app.classes.giveBack(app.group.members)
      app.memory?.giveBack(app.group.members())
      app.limits.lift(app.group.members())
      app.client?.close("the host ends")
      app.client = nil
      if app.watched >= 0 { close(app.watched) }
      app.leaveChild()
    }
    apps = [:]
    states?.leave()
    record?.remove()
    maker.leave()
  }

  // MARK: Effects

  /// - Parameter first: called before the app's callbacks have returned, which may suspend it.
  func post(
    _ event: AppEvent, to app: HostedProcess, _ first: (HostCore) -> Void = { _ in }
  ) throws(ProcessHostError) {
    let effects: [Effect]
    do throws(AppsError) {
      effects = try system.handle(.app(app.id, event), at: now)
    } catch {
      carryOut(system.takeEffects())
      throw ProcessHostError(.lifecycle(app.name, error.message))
    }
    first(self)
    carryOut(effects)
  }

  /// Holds a task for an app, so that it may run in the background.
  func hold(_ app: HostedProcess) {
    guard app.task == nil, app.declared?.exitsOnSuspend != true, system.state(of: app.id)?.mayExecute == true
    else { return }
    do throws(ProcessHostError) { try post(.does(.beginTask(.other)), to: app) } catch {
      app.note(["\(error)"])
    }
  }

  func carryOut(_ effects: [Effect]) {
    var answers: [(app: HostedProcess, event: AppEvent)] = []
    var reanimated: [HostedProcess] = []
    for effect in effects {
      guard let name = names[effect.app], let app = apps[name] else { continue }
      if let event = carryOut(effect.action, of: app) { answers.append((app, event)) }
      if effect.action == .heartbeat { reanimated.append(app) }
    }
    for (app, event) in answers where apps[app.name] === app {
      // Obsolete where another answer has moved the app on.
      if let effects = try? system.handle(.app(app.id, event), at: now) { carryOut(effects) }
    }
    for app in reanimated where apps[app.name] === app { askForHeartbeat(app) }
  }
}
