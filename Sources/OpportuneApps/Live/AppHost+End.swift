import OpportuneScheduler

/// The end of an app's life, and of what it opened.
extension AppHost {
  func takeBack(_ id: AppID) {
    guard let resident = residents[id] else {
      for broker in brokers { broker.takeBack(id) }
      return
    }
    noticeDrawing(of: resident)
    resident.endAudio()
    resident.isEnding = true
    resident.waiting = []
    let isDying = system.state(of: id) == .terminated
    let overran = isDying && (system.view(of: id)?.callbacks.isEmpty ?? true)
    if overran || resident.callbacks.isEmpty { finish(resident) }
  }

  /// Cancels all remaining work. Code that does not end continues in the background, off the foreground's
  /// cores.
  func finish(_ resident: Resident) {
    let app = resident.app
    guard residents[app.id]?.app === app else { return }
    let isEmpty = resident.end(brokers)
    residents[app.id] = nil
    if isEmpty {
      reap(app.id)
    } else {
      ending[app.id, default: []].append(app)
      later(after: policy.sliceAllowance) { $0.reportUnending(app) }
    }
  }

  func isEmpty(_ id: AppID, _ life: UInt64) {
    ending[id]?.removeAll { $0.life == life }
    virtual?.unending.remove(life)
    if ending[id]?.isEmpty == true {
      ending[id] = nil
      reap(id)
    }
    wakeIfSettled()
  }

  func reap(_ id: AppID) {
    guard system.state(of: id) == .terminated, residents[id] == nil else { return }
    // Posted after the current effects.
    soon {
      if $0.system.state(of: id) == .terminated, $0.residents[id] == nil { try? $0.post(.app(id, .reaped)) }
    }
  }

  func reportUnending(_ app: HostedApp) {
    guard ending[app.id]?.contains(where: { $0 === app }) == true else { return }
    tellObservers(AppHost.Event(moment: system.now, app: app.id, action: .diagnose(.unendingSlice)))
    virtual?.unending.insert(app.life)
  }

  // MARK: Tasks

  /// What is called when the time of a task is up.
  struct Expiration {
    let handler: @Sendable (TaskID) async -> Void
    /// Whether the task ends soon after it, without more of the app's code.
    let endsTask: Bool
  }

  func beginTask(_ kind: TaskKind, _ app: HostedApp, _ expired: Expiration) throws(HostError) -> TaskID {
    guard residents[app.id]?.app === app else { throw HostError(.terminated(app.manifest.identifier)) }
    let effects: [Effect]
    do {
      effects = try system.handle(.app(app.id, .does(.beginTask(kind))), at: clock)
    } catch {
      throw HostError(.apps(error))
    }
    var result: TaskID?
    var refusal = TaskRefusal.notSupported
    for effect in effects where effect.app == app.id {
      if case .taskBegan(let task) = effect.action { result = task }
      if case .taskRefused(let reason) = effect.action { refusal = reason }
    }
    if let result { expirations[result] = expired }
    carryOut(effects)
    rearm()
    guard let result else { throw HostError(.refused(refusal)) }
    return result
  }
}

extension AppHost.Resident {
  func endAudio() {
    audio?.end()
    audio = nil
  }

  /// Ends the life. Returns true if no code of it runs or is queued.
  func end(_ brokers: [any ResourceBroker]) -> Bool {
    endAudio()
    // Only now: the last callback may use the app's resources.
    for broker in brokers { broker.takeBack(app.id) }
    callbacks = []
    waiting = []
    for buffer in buffers { _ = buffer.setAccepts(false) }
    for place in [app.app, snapshotExecutor] { try? place?.setBand(.background) }
    let isEmpty = app.end()
    app.app.resume()  // so that queued closures can be cancelled
    return isEmpty
  }
}
