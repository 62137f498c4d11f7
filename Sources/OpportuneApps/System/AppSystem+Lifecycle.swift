extension AppSystem {
  /// Moves an app by the table, and carries out the consequences of the move.
  mutating func move(_ id: AppID, _ event: LifecycleEvent, reason: LaunchReason = .user) throws(AppsError) {
    var decision = try decide(id, event)
    if case .move(let new, _) = decision, new.isForeground, !apps[id.number].state.isForeground {
      makeRoom(for: id)
      decision = try decide(id, event)  // making room may have moved this app too
    }
    let old = apps[id.number].state
    switch decision {
    case .ignored(let why): emit(.ignored(event, why), id)
    case .move(let new, let wanted):
      if new.isForeground, !old.isForeground { front.append(id) }
      if !new.isForeground, let place = front.firstIndex(of: id) { front.remove(at: place) }
      if !new.mayExecute, new != .terminated || !wanted.contains(.deliver(.willTerminate)) {
        dropCallbacks(of: id)
      }
      setState(of: id, to: new, by: event)
      for effect in wanted { carryOut(effect, of: id, reason: reason) }
      followUp(id, from: old, to: new)
    }
  }

  private func decide(_ id: AppID, _ event: LifecycleEvent) throws(AppsError) -> Lifecycle.Decision {
    do {
      return try Lifecycle.decide(apps[id.number].state, event, facts(of: id))
    } catch {
      throw AppsError(.lifecycle(id, error))
    }
  }

  /// Like `move`, where the table is known to allow it; a refusal is a bug of the caller.
  mutating func moveOn(_ id: AppID, _ event: LifecycleEvent, reason: LaunchReason = .user) {
    do {
      try move(id, event, reason: reason)
    } catch {
      preconditionFailure("\(error)")
    }
  }

  private mutating func setState(of id: AppID, to new: LifecycleState, by event: LifecycleEvent) {
    let index = id.number
    let old = apps[index].state
    guard old != new else { return }
    apps[index].totals[Int(old.rawValue)] += now - apps[index].since
    apps[index].since = now
    if old.isForeground || new.isForeground { apps[index].lastUsed = now }
    if old.isInMemory != new.isInMemory {
      let bytes = UInt128(apps[index].footprint)
      if new.isInMemory { memoryInUse += bytes } else { memoryInUse -= bytes }
    }
    apps[index].state = new
    emit(.moved(from: old, to: new, by: event), id)
  }

  private mutating func carryOut(_ effect: LifecycleEffect, of id: AppID, reason: LaunchReason) {
    switch effect {
    case .start:
      dropCallbacks(of: id)  // of an earlier life
      emit(.lifecycle(effect), id)
      emit(.launched(reason), id)
    case .deliver(let callback):
      apps[id.number].callbacks.append(callback)
      if apps[id.number].callbacks.count == 1 { arm(.callback, of: id, at: now + policy.callbackLimit) }
      emit(.lifecycle(effect), id)
    case .stopExecution:
      emit(.lifecycle(effect), id)
      arm(.slice, of: id, at: now + policy.sliceAllowance)
    case .deleteState:
      emit(.lifecycle(effect), id)
      forget(id)
    case .resumeExecution, .takeSnapshot, .saveState, .restoreState, .warnOfMemory, .takeBack:
      emit(.lifecycle(effect), id)
    }
  }

  private mutating func followUp(_ id: AppID, from old: LifecycleState, to new: LifecycleState) {
    if old.isForeground != new.isForeground {
      if new.isForeground { enteredForeground(id) } else { leftForeground(id) }
    } else if new == .background, old != .background {
      enteredBackground(id)
    }
    if new != .stopping { disarm(.slice, of: id) }
    if new == .suspended { enteredSuspension(id) }
    refreshRestrictions(of: id)
    // Another app may receive the user's input now.
    if old.isForeground != new.isForeground {
      for app in front where app != id { refreshRestrictions(of: app) }
    }
    suspendUnlessHeld(id)
  }

  /// Apps in the foreground give way, the longest there first. (R-LIFE-04, R-TASK-06)
  private mutating func makeRoom(for id: AppID) {
    while front.count >= policy.maximumForeground, let first = front.first { moveOn(first, .leave) }
    if let active = front.last, apps[active.number].state == .active { moveOn(active, .interrupt) }
  }

  private mutating func enteredForeground(_ id: AppID) {
    disarm(.grace, .tasks, .handler, .idle, .event, .batch, .heartbeat, .fetch, .fetchLimit, of: id)
    let index = id.number
    apps[index].budgetEnd = nil
    apps[index].cpuBehind = .zero
    apps[index].hibernatesWhenStopped = false
    complianceEntersForeground(id)
    let changes = apps[index].changes.sorted { $0.key < $1.key }.map { Change(kind: $0.key, value: $0.value) }
    apps[index].changes = [:]
    if !changes.isEmpty {
      emit(.coalesced(changes), id)
      complianceHears(changes.map(\.kind), id)
    }
    deliverQueued(id)
  }

  private mutating func leftForeground(_ id: AppID) {
    apps[id.number].interruptions = 0
    if apps[id.number].state == .background {
      arm(.grace, of: id, at: now + policy.grace)
      enteredBackground(id)
    }
    // The next foreground app receives the user's input now.
    if let next = front.last, apps[next.number].state == .inactive, apps[next.number].callbacks.isEmpty {
      moveOn(next, .activate)
    }
  }

  private mutating func enteredBackground(_ id: AppID) {
    let index = id.number
    apps[index].cpuBehind = .zero
    apps[index].hibernatesWhenStopped = false
    startBudget(of: id)
    complianceEntersBackground(id)
    armTasks(of: id)
    armFetch(of: id)
    arbitrateAudio(newest: id)
    revokeAtBackground(id)
  }

  private mutating func enteredSuspension(_ id: AppID) {
    complianceIsSuspended(id)
    if let interval = apps[id.number].heartbeat, policy.network.isOn {
      arm(.heartbeat, of: id, at: now + interval)
    }
    if apps[id.number].hibernatesWhenStopped {
      apps[id.number].hibernatesWhenStopped = false
      moveOn(id, .hibernate)
    }
  }

  /// Resets everything that ends with an app's life. Its local notifications are kept. (R-MSG-09)
  private mutating func forget(_ id: AppID) {
    let index = id.number
    for kind in DeadlineKind.allCases where kind != .callback && kind != .local { disarm(kind, of: id) }
    let hadTasks = apps[index].tasks
    for task in hadTasks { emit(.taskEnded(task.id), id) }
    apps[index].tasks = []
    apps[index].work = [:]
    apps[index].audio = nil
    apps[index].isPaused = false
    apps[index].interruptions = 0
    apps[index].heartbeat = nil
    apps[index].isTracking = false
    apps[index].locks = [:]
    for grant in apps[index].grants.sorted() { emit(.revoked(grant), id) }
    apps[index].grants = []
    apps[index].changes = [:]
    apps[index].wakes = Set(Wake.allCases)
    apps[index].footprint = 0
    apps[index].compliance.reset()
  }

  private mutating func dropCallbacks(of id: AppID) {
    apps[id.number].callbacks = []
    disarm(.callback, of: id)
  }

  mutating func refreshRestrictions(of id: AppID) {
    let new = restrictions(of: id)
    for hardware in apps[id.number].grants.sorted() where new.deniedHardware.contains(hardware) {
      apps[id.number].grants.remove(hardware)
      emit(.revoked(hardware), id)
    }
    guard apps[id.number].restrictions != new else { return }
    apps[id.number].restrictions = new
    emit(.restrict(new), id)
  }

  /// Suspends a background app if nothing keeps it there.
  mutating func suspendUnlessHeld(_ id: AppID) {
    guard apps[id.number].state == .background, !isHeld(apps[id.number]) else { return }
    if apps[id.number].wantsTermination {
      apps[id.number].wantsTermination = false
      return moveOn(id, .terminate)
    }
    reportHeldLocks(id)
    moveOn(id, .suspend)
  }

  // MARK: Reports of the host

  mutating func callbackReturned(_ callback: Callback, _ id: AppID) throws(AppsError) {
    let expected = apps[id.number].callbacks.first
    guard expected == callback else { throw AppsError(.unexpectedReturn(id, callback, expected: expected)) }
    apps[id.number].callbacks.removeFirst()
    disarm(.callback, of: id)
    if callback == .willResignActive { complianceResigned(id) }
    if callback == .didEnterBackground {
      complianceEnteredBackground(id)
      if policy.suspendsOnReturn { disarm(.grace, of: id) }
    }
    guard apps[id.number].callbacks.isEmpty else {
      return arm(.callback, of: id, at: now + policy.callbackLimit)
    }
    if apps[id.number].state == .inactive, front.last == id, apps[id.number].interruptions == 0 {
      moveOn(id, .activate)
    }
    suspendUnlessHeld(id)
  }

  mutating func callbackOverran(_ id: AppID) {
    guard let callback = apps[id.number].callbacks.first else { return }
    emit(.diagnose(.callbackOverrun(callback)), id)
    guard apps[id.number].state.mayExecute else { return }
    if callback == .didEnterBackground || policy.callbackOverrun == .terminate { moveOn(id, .overrun) }
  }

  mutating func graceEnded(_ id: AppID) {
    if apps[id.number].callbacks.contains(.didEnterBackground), !isFree(apps[id.number]) {
      emit(.diagnose(.callbackOverrun(.didEnterBackground)), id)
      return moveOn(id, .overrun)
    }
    suspendUnlessHeld(id)
  }

  mutating func sliceOverran(_ id: AppID) {
    guard apps[id.number].state == .stopping else { return }
    emit(.diagnose(.sliceOverrun), id)
    breaks(.taskForLongWork, id)
    if policy.sliceOverrun == .terminate { moveOn(id, .overrun) }
  }
}
