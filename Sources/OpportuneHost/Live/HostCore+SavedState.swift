internal import OpportuneApps
internal import OpportuneBase

/// Apps that are ended with their state saved, and started anew with it: hibernation where nothing can be
/// paged out. (R-LIFE-07)
extension HostCore {
  /// The best way to hibernate an app now.
  func way(of app: HostedProcess) -> HibernationWay {
    let notPagedOut = PageOut.obstacle(app.memory, hasSwap: configuration.hasSwap)
    // A look at all that it has open is for those alone who need it.
    return .best(
      notPagedOut: notPagedOut, checkpoint: notPagedOut == nil ? .unused : checkpoint(of: app),
      notSaved: notSaved(app))
  }

  /// Why an app cannot be started anew as it was; `nil`: it can.
  private func notSaved(_ app: HostedProcess) -> String? {
    if states == nil { return "the host has no folder for states" }
    if app.declared == nil {
      return "no manifest says how it is started anew, nor opportune run --restartable"
    }
    guard let client = app.client else {
      return app.leftBecause.map { "its program cooperates no more: \($0)" } ?? "no process of it has joined"
    }
    if !client.sockets.isEmpty { return "sockets of it are kept alive, and would end" }
    if client.hasHeartbeat { return "it sends heartbeats, and would send none" }
    return client.restarts ? nil : "its program has not said that it saves its state"
  }

  /// Has a program save its state, after which it is ended.
  ///
  /// - Returns: how long it goes on until it is looked at again, and why.
  func save(
    _ app: HostedProcess, notBetter: String, _ policy: LockPolicy
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    try checkLives(app)
    outcomes[app.name] = nil
    app.pending = nil
    let wasStopped = system.state(of: app.id)?.mayExecute != true
    if wasStopped { try resume(app.name) }
    return try suspend(
      app, askedAt: now, policy,
      saving: PendingSuspension.Saving(notBetter: notBetter, wasStopped: wasStopped))
  }

  /// - Throws: ``ProcessHostError``: `notHibernated` where its program is not to be asked any more.
  func checkSaves(_ app: HostedProcess) throws(ProcessHostError) {
    if let why = notSaved(app) { throw ProcessHostError(.notHibernated(app.name, why)) }
    guard system.state(of: app.id)?.mayExecute == true else {
      throw ProcessHostError(
        .notHibernated(app.name, "it does not run, to save its state: it is \(stateName(app))"))
    }
  }

  /// - Returns: the file that it is to write its state to.
  func prepareState(of app: HostedProcess) throws(ProcessHostError) -> String {
    guard let states else { throw ProcessHostError(.notHibernated(app.name, notSaved(app) ?? "")) }
    return try states.prepare(app.name)
  }

  /// It has saved its state: ends it when that is on storage, which nothing else waits for.
  func endWithState(
    _ app: HostedProcess, askedAt: Moment, _ policy: LockPolicy, _ saving: PendingSuspension.Saving
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    guard let states else { return nil }
    guard let flush = saving.flush else {
      let bytes = try states.keep(app.name)
      states.note(
        app.name,
        "its state of \(bytes) bytes is saved, with which it is started anew; it was not paged out: "
          + saving.notBetter)
      let (flush, paths, write, wakeUp) = (
        StateFlush(), states.paths(of: app.name), configuration.flush, self.wakeUp
      )
      var saving = saving
      saving.flush = flush
      runAside {
        flush.run(write, paths)
        wakeUp()
      }
      return waitForStorage(app, askedAt, policy, saving)
    }
    guard flush.hasEnded else { return waitForStorage(app, askedAt, policy, saving) }
    try flush.check(app.name)
    try end(app)
    return waitForEnd(app.name)
  }

  private func waitForStorage(
    _ app: HostedProcess, _ askedAt: Moment, _ policy: LockPolicy, _ saving: PendingSuspension.Saving
  ) -> (wait: Duration, reason: String)? {
    let reason = "its state is being written to storage"
    app.pending = PendingSuspension(
      askedAt: askedAt, policy: policy, until: now + .seconds(60), reason: reason, isForAnswer: true,
      saving: saving)
    return (.milliseconds(50), reason)
  }

  /// Its state is on storage, or cannot be written there.
  func lookAtFlush(of app: HostedProcess) {
    guard let pending = app.pending, pending.saving?.flush?.hasEnded == true else { return }
    lookAgain(at: app, pending)
  }

  /// It is not to be ended, so what it has saved is of no use.
  func dropState(of app: HostedProcess, _ saving: PendingSuspension.Saving?) {
    guard let saving else { return }
    // Before it is kept it is what the program has written last.
    if saving.flush != nil { states?.remove(app.name) } else { states?.discard(app.name) }
  }

  /// - Returns: `nil`: it has ended, or is not to be ended.
  func waitForEnd(_ name: String) -> (wait: Duration, reason: String)? {
    guard let app = apps[name], states?.all[name]?.isDue == false else { return nil }
    if let pending = app.pending { return (.milliseconds(50), pending.reason) }
    return (.milliseconds(50), "its state is saved, and it is being ended")
  }

  /// It goes on as it did; what was suspended is so again.
  func hasNotSaved(_ app: HostedProcess, _ saving: PendingSuspension.Saving, _ policy: LockPolicy) {
    guard saving.wasStopped, apps[app.name] === app else { return }
    app.used = now  // not asked again at once
    do throws(ProcessHostError) { _ = try suspend(app, askedAt: now, policy) } catch {
      app.note([error.message])
    }
  }

  // MARK: Anew

  /// It has its state again.
  func hasTaken(_ app: HostedProcess) { states?.remove(app.name) }

  /// An app has ended. One that had been started anew, and had not taken its state, is started once more.
  func startAgain(_ app: HostedProcess) {
    guard let state = states?.all[app.name], state.isDue, let declared = app.declared else { return }
    guard state.starts == 1 else {
      states?.note(app.name, "its state is saved, and it has ended before it took it")
      return
    }
    configuration.log("'\(app.name)' has ended before it took its state, and is started once more")
    do throws(ProcessHostError) {
      _ = try launch(declared, foreground: app.isInFront, isAsked: false, reason: .system)
    } catch {
      states?.note(app.name, "its state is saved; it could not be started: \(error.message)")
    }
  }

  /// A host before has ended when it was ending an app with its state saved.
  func goOnEnding(_ app: HostedProcess) {
    guard states?.all[app.name]?.isDue == false else { return }
    do throws(ProcessHostError) { try end(app) } catch { app.note([error.message]) }
  }

  // MARK: Without a manifest

  /// How an app is started anew that `opportune run` has started; `nil`: it is not to be.
  func declaration(of name: String) -> HostManifest? { states?.runs[name]?.manifest(name) }

  /// - Throws: ``ProcessHostError``: `value`, `system`, `lifecycle`.
  func declare(_ name: String, _ run: RunDeclaration) throws(ProcessHostError) -> HostManifest {
    guard let states else {
      throw ProcessHostError(
        .lifecycle(name, "how it is started anew cannot be kept: the host has no folder for states"))
    }
    do throws(ProcessHostError) { try states.declare(name, run) } catch {
      guard case .notHibernated(_, let why) = error.code else { throw error }
      throw ProcessHostError(.lifecycle(name, "how it is started anew cannot be kept: \(why)"))
    }
    return run.manifest(name)
  }

  /// Nothing of an app is left that could be started anew.
  func undeclare(_ name: String) {
    if apps[name] == nil, !hasEndedWithState(name) { states?.undeclare(name) }
  }

  /// An app that does not run is not to be started anew.
  func forget(_ name: String) {
    guard states?.runs[name] != nil else { return }
    states?.undeclare(name)
    notifications.cancel(nil, of: name)
  }

  // MARK: What is told

  /// With its state saved, or by a checkpoint.
  func hasEndedWithState(_ name: String) -> Bool {
    apps[name] == nil && (states?.all[name] != nil || checkpoints?.all[name] != nil)
  }

  var endedWithState: [AppEntry] {
    let ended =
      (states?.all ?? [:]).map { ($0, HibernationWay.Name.savedState, $1.note) }
      + (checkpoints?.all ?? [:]).map { ($0, .checkpoint, $1.note) }
    return ended.filter { apps[$0.0] == nil }.map { name, way, note in
      .withoutProcess(
        name, .hibernated, hibernatedBy: way, scheduled: notifications.count(of: name),
        notes: [PageOut.Purpose.hibernation.rawValue + note])
    }
  }

  /// All apps with where they are; those without an object were ended with their state saved.
  func statesOfApps() -> [String: (app: HostedProcess?, state: String)] {
    var result: [String: (app: HostedProcess?, state: String)] = [:]
    for name in Array((states?.all ?? [:]).keys) + (checkpoints?.all ?? [:]).keys {
      result[name] = (nil, LifecycleState.Operational.hibernated.rawValue)
    }
    for (name, app) in apps {
      result[name] = (app, stateName(app))
      for (name, state) in innerStates(of: app) { result[name] = (app, state.rawValue) }
    }
    return result
  }

  /// Whether something is kept with which the app is started anew: its state, or what `opportune run` said.
  func isKept(_ name: String) -> Bool {
    states?.all[name] != nil || states?.runs[name] != nil || checkpoints?.all[name] != nil
  }

  /// What an app that does not run, and can be started anew, cannot be asked for.
  func known(_ name: String) -> ProcessHostError {
    ProcessHostError(
      .lifecycle(
        name,
        checkpoints?.all[name] != nil
          ? "it is hibernated by a checkpoint: opportune resume restores it"
          : states?.all[name] != nil
            ? "it is hibernated, with its state saved: opportune resume starts it"
            : "it was terminated for memory: opportune front starts it anew, opportune terminate forgets it"))
  }

  /// Of one that was paged out.
  func notSavedNote(_ app: HostedProcess) -> String {
    guard case .pagedOut(let why?) = way(of: app) else { return "" }
    return "; \(why)"
  }
}
