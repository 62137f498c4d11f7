import OpportuneScheduler

/// Carrying out effects: callbacks on the app's executor, all others on the host's strand.
extension AppHost {
  func carryOut(_ effects: [Effect]) {
    for effect in effects {
      let entry = AppHost.Event(moment: system.now, app: effect.app, action: effect.action)
      tellObservers(entry)
      carryOut(effect.action, effect.app)
    }
    guard !brokers.isEmpty else { return }
    for id in Set(effects.map(\.app)) { tellSnapshot(of: id) }
  }

  func tellSnapshot(of id: AppID) {
    guard let snapshot = system.snapshot(of: id), latestSnapshots[id] != snapshot else { return }
    latestSnapshots[id] = snapshot
    for broker in brokers { broker.stands(id, snapshot) }
  }

  func carryOut(_ action: AppEffect, _ id: AppID) {
    switch action {
    case .lifecycle(let effect): carryOut(effect, id)
    case .launched(let reason): residents[id]?.reason = reason
    case .restrict(let restrictions): restrict(id, restrictions)
    case .expire(let task):
      // Runs beside a callback that does not return: the handler's time is limited.
      if let expired = expirations[task], let resident = residents[id] {
        if expired.endsTask { resident.expiring.insert(task) }
        call(resident) { app, _ in if !app.isOver { await expired.handler(task) } }
      }
    case .taskEnded(let task):
      expirations[task] = nil
      residents[id]?.expiring.remove(task)
    case .pauseAudio:
      followAudio(id)
      enqueue(id) { delegate, _, _ in await delegate.audioShouldPause() }
    case .resumeAudio:
      followAudio(id)
      enqueue(id) { delegate, _, _ in await delegate.audioShouldResume() }
    case .deliver(let message): notify(id, .message(message))
    case .coalesced(let changes): notify(id, .changes(changes))
    case .data(let bytes): notify(id, .data(bytes: bytes))
    case .heartbeat: notify(id, .heartbeat)
    case .locationEvent: notify(id, .location)
    case .completion: notify(id, .completion)
    case .revoked(let hardware): tell(id, .revoked(hardware))
    case .lockRevoked(let resource): tell(id, .lockRevoked(resource))
    case .fetch:
      enqueue(id) { delegate, app, host in
        let result = await delegate.fetch()
        try? await host.value?.post(.fetched(result), app)
      }
    case .moved:
      watchWork(id)
      tellRealTimeCode(of: id)
    case .taskBegan: watchWork(id)
    case .ignored, .taskRefused, .notify, .ask, .granted, .denied, .lockGranted, .diagnose:
      guard case .diagnose(let diagnosis) = action, let resident = residents[id] else { return }
      switch diagnosis {
      case .callbackOverrun:
        resident.isLate = true
        if resident.isEnding { finish(resident) }
      case .sliceOverrun, .fetchOverrun: resident.isLate = true
      default: break
      }
    }
  }

  func carryOut(_ effect: LifecycleEffect, _ id: AppID) {
    switch effect {
    case .start: start(id)
    case .deliver(let callback):
      guard let resident = residents[id] else { return }
      resident.callbacks.append(callback)
      callNext(resident)
    case .stopExecution: stop(id)
    case .resumeExecution:
      // The restoration from the store comes first.
      if let resident = residents[id], resident.restorations > 0 {
        resident.resumesWhenRestored = true
      } else {
        resume(id)
      }
    case .takeSnapshot: keepSnapshot(residents[id]?.takeImage(), of: id)
    case .saveState: for broker in brokers { broker.save(id) }
    case .restoreState: restore(id)
    case .deleteState: keepSnapshot(nil, of: id)
    case .warnOfMemory:
      enqueue(id) { delegate, _, _ in await delegate.didReceiveMemoryWarning() }
    case .takeBack: takeBack(id)
    }
  }

  func start(_ id: AppID) {
    guard let make = makers[id], let manifest = system.view(of: id)?.manifest else { return }
    if let old = residents[id] { finish(old) }
    lives += 1
    // Without a scheduler app the app cannot run. It exits after the other effects of this event were carried
    // out.
    guard let place = try? scheduler.makeApp(named: manifest.identifier, band: .foreground) else {
      soon { if $0.residents[id] == nil { try? $0.post(.app(id, .exited)) } }
      return
    }
    let app = HostedApp(id: id, manifest: manifest, app: place, host: WeakHost(self), life: lives)
    residents[id] = Resident(app)
    for broker in brokers { broker.begins(app) }
    // On the app's executor: a slow initialiser must not delay other apps.
    _ = try? app.task(name: "delegate", priority: .high) { [host = WeakHost(self)] in
      let delegate = make(app)
      await host.value?.made(delegate, app)
    }
  }

  private func made(_ delegate: any AppDelegate, _ app: HostedApp) {
    guard let resident = residents[app.id], resident.app === app else { return }
    resident.delegate = delegate
    for broker in brokers { broker.has(delegate, app) }
    resident.startWaiting()
    callNext(resident)
    wakeIfSettled()
  }

  func resume(_ id: AppID) {
    residents[id]?.snapshotExecutor = nil
    if let resident = residents[id] {
      // Before any of its code draws.
      placePages(of: resident, system.view(of: id)?.restrictions.mayDraw ?? false)
      for place in resident.places { place.resume() }
    }
    followAudio(id)
  }

  /// Restores an app; other apps continue meanwhile.
  func restore(_ id: AppID) {
    let tasks = brokers.compactMap { $0.restore(id) }
    guard !tasks.isEmpty, let resident = residents[id] else { return }
    resident.restorations += 1
    let app = resident.app
    beside { host in
      var isWhole = true
      for task in tasks where await !task.value { isWhole = false }
      await host.value?.restored(app, isWhole)
    }
  }

  func restored(_ app: HostedApp, _ isWhole: Bool) {
    let id = app.id
    guard let resident = residents[id], resident.app === app else { return }
    resident.restorations -= 1
    guard !resident.isEnding else { return }
    guard isWhole else {
      // The app has lost its state and must not continue without it.
      let wasInFront = system.state(of: id)?.isForeground == true
      resident.callbacks = []
      resident.waiting = []
      try? post(.app(id, .exited))
      if wasInFront { try? post(.app(id, .launch)) }
      return
    }
    guard resident.restorations == 0, resident.resumesWhenRestored else { return }
    resident.resumesWhenRestored = false
    resume(id)
    callNext(resident)
  }

  func callNext(_ resident: Resident) {
    guard !resident.isCalling, resident.restorations == 0, let delegate = resident.delegate,
      let callback = resident.callbacks.first
    else { return }
    resident.isCalling = true
    let reason = resident.reason
    let app = resident.app
    // Refused only at the end, when no callback is due any more.
    _ = try? app.task(name: callback.rawValue, priority: .high) { [host = WeakHost(self)] in
      await delegate.handle(callback, reason)
      await host.value?.returned(callback, app)
    }
  }

  func returned(_ callback: Callback, _ app: HostedApp) {
    guard let resident = residents[app.id], resident.app === app, resident.callbacks.first == callback else {
      return
    }
    resident.callbacks.removeFirst()
    resident.isCalling = false
    resident.isLate = false
    if callback == .didEnterBackground, !resident.callbacks.contains(callback) {
      for buffer in resident.buffers { buffer.watch() }
    }
    for index in resident.waiting.indices { resident.waiting[index].after -= 1 }
    resident.startWaiting()
    if !resident.isEnding || callback == .willTerminate || !resident.callbacks.isEmpty {
      try? post(.app(app.id, .returned(callback)))
    }
    callNext(resident)
    if resident.isEnding, resident.callbacks.isEmpty { finish(resident) }
    wakeIfSettled()
  }

  func restrict(_ id: AppID, _ restrictions: Restrictions) {
    guard let resident = residents[id], !resident.isEnding else { return }
    placePages(of: resident, restrictions.mayDraw)
    resident.audio?.restrict(restrictions)
    let isNews = resident.app.deviceClasses.set(restrictions)
    // Neither band needs a pool that may be missing.
    switch restrictions.cpu {
    case .foreground: try? resident.app.app.setBand(.foreground)
    case .background: try? resident.app.app.setBand(.background)
    case .none: break
    }
    if isNews { resident.app.app.tellObservers() }
  }

  /// Suspends the app. When its last slice has ended, the system is notified. (R-FTS-06)
  func stop(_ id: AppID) {
    guard let resident = residents[id] else { return }
    let (app, places) = (resident.app, resident.places)
    resident.resumesWhenRestored = false
    resident.snapshotExecutor = nil
    resident.audio?.halt()
    for place in places { place.suspend() }
    if places.allSatisfy({ $0.activity == .suspended }) {
      // Posted after the other effects of this event.
      soon { $0.stopped(app) }
    } else {
      beside { host in
        for place in places { await place.untilSuspended() }
        await host.value?.stopped(app)
      }
    }
  }

  func stopped(_ app: HostedApp) {
    guard let resident = residents[app.id], resident.app === app,
      resident.places.allSatisfy({ $0.activity == .suspended })
    else { return }
    guard system.state(of: app.id) == .stopping else { return }
    askForImage(resident)
  }
}
