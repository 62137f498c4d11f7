extension AppSystem {
  /// Handles one event of an app. If it throws, it has changed nothing.
  mutating func handle(_ event: AppEvent, of id: AppID) throws(AppsError) {
    switch event {
    case .launch: try move(id, .launchForeground)
    case .launchInBackground(let reason): try move(id, .launchBackground, reason: reason)
    case .bringForward: try bringForward(id)
    case .leave: try move(id, .leave)
    case .interrupt:
      try move(id, .interrupt)
      if apps[id.number].state.isForeground { apps[id.number].interruptions += 1 }
    case .endInterruption:
      apps[id.number].interruptions = max(0, apps[id.number].interruptions - 1)
      // If a callback is still running, as at launch, its end activates the app.
      guard apps[id.number].callbacks.isEmpty || apps[id.number].callbacks == [.willResignActive] else {
        return
      }
      try move(id, .endInterruption)
    case .terminate: try move(id, .terminate)
    case .hibernate: try move(id, .hibernate)
    case .memoryWarning: try move(id, .memoryWarning)
    case .locationEvent: locationEvent(id)
    case .completion: if policy.completionsReanimate { wake(id, by: .completion, .completion) }
    case .returned(let callback): try callbackReturned(callback, id)
    case .stopped: try move(id, .stopped)
    case .reaped: try move(id, .reap)
    case .exited: try move(id, .exit)
    case .worked(let time): try worked(time, id)
    case .footprint(let bytes): setFootprint(bytes, id)
    case .realTimeCode(let file): realTimeCode(file, id)
    case .message(let message): receive(message, id)
    case .data(let bytes): try received(bytes, id)
    case .trackingBegan: try trackingBegan(id)
    case .trackingEnded: trackingEnded(id)
    case .changed(let kind, let value): changed(kind, value, id)
    case .workedInBackground(let used, let stay): workedInBackground(used, of: stay, id)
    case .drewInBackground: breaks(.noDrawingInBackground, id)
    case .does(let action): try handle(action, of: id)
    }
  }

  private mutating func handle(_ action: AppAction, of id: AppID) throws(AppsError) {
    switch action {
    case .beginTask(let kind): beginTask(kind, id)
    case .endTask(let task): try endTask(task, id)
    case .workBegan(let kind): try workBegan(kind, id)
    case .workEnded(let kind): try workEnded(kind, id)
    case .audioBegan(let activity): try audioBegan(activity, id)
    case .audioPaused: try audioPaused(id)
    case .audioResumed: try audioResumed(id)
    case .audioEnded: try audioEnded(id)
    case .handled: handled(id)
    case .wakesOn(let wakes): apps[id.number].wakes = wakes
    case .schedule(let notification): try schedule(notification, id)
    case .cancelLocalNotifications: cancelLocals(id)
    case .present(let text):
      try requireExecuting(id)
      ask(.text(text), id)
    case .heartbeat(let interval): try setHeartbeat(interval, id)
    case .heartbeatSent: handled(id)
    case .call(let caller):
      try requireExecuting(id)
      ask(.call(caller), id)
    case .fetched(let result): fetched(result, id)
    case .lock(let resource): try lock(resource, id)
    case .unlock(let resource): try unlock(resource, id)
    case .request(let hardware): try request(hardware, id)
    case .release(let hardware): try release(hardware, id)
    case .compliance(let compliance): try behaves(compliance, id)
    }
  }

  func requireExecuting(_ id: AppID) throws(AppsError) {
    let state = apps[id.number].state
    guard state.mayExecute else { throw AppsError(.notExecuting(id, state)) }
  }

  func requireMode(_ mode: Manifest.Mode, _ id: AppID) throws(AppsError) {
    guard apps[id.number].manifest.backgroundModes.contains(mode) else {
      throw AppsError(.missingMode(id, mode))
    }
  }

  /// The app is one of several in the foreground: it gets the user's input.
  private mutating func bringForward(_ id: AppID) throws(AppsError) {
    guard apps[id.number].state == .inactive, front.last != id, let place = front.firstIndex(of: id) else {
      return try move(id, .bringForward)
    }
    if let active = front.last, apps[active.number].state == .active { moveOn(active, .interrupt) }
    front.remove(at: place)
    front.append(id)
    if apps[id.number].callbacks.isEmpty { moveOn(id, .activate) }
    for app in front { refreshRestrictions(of: app) }
  }
}
