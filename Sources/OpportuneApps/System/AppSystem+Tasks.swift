/// Task completion: background time for unfinished work. (R-TASK)
extension AppSystem {
  mutating func beginTask(_ kind: TaskKind, _ id: AppID) {
    if let refusal = taskRefusal(id) { return emit(.taskRefused(refusal), id) }
    let task = OpenTask(id: nextTaskID(), kind: kind)
    apps[id.number].tasks.append(task)
    emit(.taskBegan(task.id), id)
    complianceBeginsTask(id)
    armTasks(of: id)
  }

  private func taskRefusal(_ id: AppID) -> TaskRefusal? {
    let app = apps[id.number]
    if !policy.tasks.isOn || !policy.supportsMultitasking || app.manifest.exitsOnSuspend {
      return .notSupported
    }
    if policy.tasks.needsDeclaration, !app.manifest.completesTasks { return .notDeclared }
    if !app.state.mayExecute { return .notExecuting }
    if app.tasks.count >= policy.tasks.maximum { return .tooMany }
    guard app.state == .background, !isFree(app) else { return nil }
    if let end = app.budgetEnd, end <= now { return .timeIsUp }
    if let limit = policy.tasks.cpuTime, app.cpuBehind >= limit { return .timeIsUp }
    return deadline(.handler, of: app.id) == nil ? nil : .timeIsUp
  }

  mutating func endTask(_ task: TaskID, _ id: AppID) throws(AppsError) {
    guard let place = apps[id.number].tasks.firstIndex(where: { $0.id == task }) else {
      throw AppsError(.unknownTask(id, task))
    }
    apps[id.number].tasks.remove(at: place)
    emit(.taskEnded(task), id)
    guard apps[id.number].tasks.isEmpty else { return }
    disarm(.handler, .idle, of: id)
    if !hasEligibleWork(apps[id.number]) { disarm(.tasks, of: id) }
    if apps[id.number].state == .background, policy.tasks.finished == .terminate {
      apps[id.number].wantsTermination = true
    }
    suspendUnlessHeld(id)
  }

  /// Starts the time limit of its background tasks.
  mutating func startBudget(of id: AppID) {
    apps[id.number].budgetEnd = (apps[id.number].manifest.taskTime ?? policy.tasks.wallClock).map { now + $0 }
  }

  /// Starts the timers of the tasks of a background app.
  mutating func armTasks(of id: AppID) {
    let app = apps[id.number]
    guard app.state == .background, !isFree(app), !app.tasks.isEmpty || hasEligibleWork(app),
      deadline(.handler, of: app.id) == nil
    else { return }
    if let end = app.budgetEnd { arm(.tasks, of: id, at: end) }
    if let limit = policy.tasks.idleLimit, !app.tasks.isEmpty, deadline(.idle, of: app.id) == nil {
      arm(.idle, of: id, at: now + limit)
    }
  }

  mutating func worked(_ time: Duration, _ id: AppID) throws(AppsError) {
    guard time >= .zero else { throw AppsError(.negativeTime(id, time)) }
    try requireExecuting(id)
    guard apps[id.number].state == .background, time > .zero else { return }
    apps[id.number].cpuBehind += min(time, .seconds(1 << 32))  // so that no sum of them overflows
    complianceWorks(time, id)
    if deadline(.idle, of: id) != nil, let limit = policy.tasks.idleLimit {
      arm(.idle, of: id, at: now + limit)
    }
    guard let limit = policy.tasks.cpuTime, apps[id.number].cpuBehind >= limit, !isFree(apps[id.number])
    else { return }
    expireTasks(of: id)
  }

  /// The time until the app's CPU time must be read again; `nil` while nothing depends on it. It is chosen so
  /// that the app cannot reach its limit earlier. (R-TASK-05, R-TASK-17)
  ///
  /// - Parameter cores: how many CPUs the app may use at once.
  package func workInterval(of id: AppID, cores: Int) -> Duration? {
    guard apps.indices.contains(id.number) else { return nil }
    let app = apps[id.number]
    guard app.state == .background, !isFree(app), deadline(.handler, of: app.id) == nil else { return nil }
    guard !app.tasks.isEmpty || hasEligibleWork(app) else { return nil }
    let left = policy.tasks.cpuTime.map { max(.zero, $0 - app.cpuBehind) / max(1, cores) }
    // Four readings within the idle limit.
    let idle = deadline(.idle, of: app.id) == nil ? nil : policy.tasks.idleLimit.map { $0 / 4 }
    return [left, idle].compactMap { $0 }.min()
  }

  /// The time of an app's tasks is up: runs their expiration handlers. (R-TASK-13)
  mutating func expireTasks(of id: AppID) {
    disarm(.tasks, .idle, of: id)
    let app = apps[id.number]
    guard app.state == .background, !isFree(app), deadline(.handler, of: app.id) == nil else { return }
    guard !apps[id.number].tasks.isEmpty else { return suspendUnlessHeld(id) }
    arm(.handler, of: id, at: now + policy.tasks.handlerTime)
    for task in apps[id.number].tasks { emit(.expire(task.id), id) }
  }

  mutating func expireAllTasks() {
    for app in apps where app.state == .background { expireTasks(of: app.id) }
  }

  /// An expiration handler has not ended its task. (R-TASK-14)
  mutating func tasksWereNotEnded(_ id: AppID) {
    guard apps[id.number].state == .background, !apps[id.number].tasks.isEmpty else { return }
    for task in apps[id.number].tasks { emit(.diagnose(.taskNeverEnded(task.id)), id) }
    breaks(.taskForLongWork, id)
    switch policy.tasks.unfinished {
    case .terminate: moveOn(id, .terminate)
    case .suspend:
      for task in apps[id.number].tasks { emit(.taskEnded(task.id), id) }
      apps[id.number].tasks = []
      suspendUnlessHeld(id)
    }
  }

  /// The app holds a task and uses no CPU time. (R-TASK-17)
  mutating func idleLimitReached(_ id: AppID) {
    guard apps[id.number].state == .background else { return }
    for task in apps[id.number].tasks { emit(.diagnose(.idleTask(task.id)), id) }
    expireTasks(of: id)
  }

  mutating func workBegan(_ kind: TaskKind, _ id: AppID) throws(AppsError) {
    try requireExecuting(id)
    apps[id.number].work[kind, default: 0] += 1
    armTasks(of: id)
  }

  mutating func workEnded(_ kind: TaskKind, _ id: AppID) throws(AppsError) {
    guard let count = apps[id.number].work[kind], count > 0 else {
      throw AppsError(.notHeld(id, "work of kind \(kind.rawValue)"))
    }
    apps[id.number].work[kind] = count == 1 ? nil : count - 1
    if apps[id.number].tasks.isEmpty, !hasEligibleWork(apps[id.number]) { disarm(.tasks, of: id) }
    suspendUnlessHeld(id)
  }
}
