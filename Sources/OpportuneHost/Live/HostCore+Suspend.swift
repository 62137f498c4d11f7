internal import OpportuneApps
internal import OpportuneBase

extension HostCore {
  /// Stops an app, unless it is exempt, or holds locks of files that others would wait for.
  ///
  /// - Parameters:
  ///   - answer: instead of the policy's own.
  ///   - isAgain: whether this asks what became of a request that was told to wait.
  /// - Returns: how long it goes on until it is looked at again, and why; `nil`: it is suspended.
  func suspend(
    _ name: String, locks answer: LockPolicy.Answer? = nil, isAgain: Bool = false
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    let outcome = outcomes.removeValue(forKey: name)
    if isAgain, let outcome { throw outcome }
    if hasEndedWithState(name) { return nil }  // nothing of it executes
    if let (app, number) = inner(name) {
      try ask(.suspend, of: number, in: app)
      return nil
    }
    let app = try app(name)
    try checkLives(app)
    app.checkpoint?.goesOn = nil
    if isAgain, let pending = app.pending { return (wait(for: pending), pending.reason) }
    dropState(of: app, app.pending?.saving)
    app.pending = nil
    return try suspend(app, askedAt: now, lockPolicy(of: app, answer))
  }

  /// - Parameter answer: instead of the policy's own.
  func lockPolicy(of app: HostedProcess, _ answer: LockPolicy.Answer? = nil) -> LockPolicy {
    var policy = configuration.locks
    policy.answer = answer ?? app.declared?.locks ?? policy.answer
    return policy
  }

  /// - Parameter saving: it is not suspended, but ended with its state saved.
  /// - Throws: as ``suspendTold(_:askedAt:_:_:)``; then a program that was told that it stops is told that it
  ///   does not.
  func suspend(
    _ app: HostedProcess, askedAt: Moment, _ policy: LockPolicy, saving: PendingSuspension.Saving? = nil
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    do throws(ProcessHostError) { return try suspendTold(app, askedAt: askedAt, policy, saving) } catch {
      if case .notStopped = error.code {} else { endFarewell(app) }  // that one stops later
      dropState(of: app, saving)
      if let saving { hasNotSaved(app, saving, policy) }
      throw error
    }
  }

  private func suspendTold(
    _ app: HostedProcess, askedAt: Moment, _ policy: LockPolicy, _ saving: PendingSuspension.Saving?
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    if let why = app.declaredKeep {
      throw ProcessHostError(.exempt(app.name, "exempt by its manifest (\(why))"))
    }
    if let exemption = app.exemption, !exemption.isOver(at: now) {
      throw ProcessHostError(.exempt(app.name, exemption.text))
    }
    if saving != nil { try checkSaves(app) }
    // What does not run has been looked at.
    guard system.state(of: app.id)?.mayExecute == true else {
      try stopKeepingDisplay(app)
      stopAgain(app)
      return nil
    }
    // Begun under a host before: CRIU has its processes in hand, and they are not to be frozen.
    if let wait = waitForCheckpoint(app.name) { return wait }
    if let (until, reason) = try farewell(app, saves: saving != nil) {
      let pending = PendingSuspension(
        askedAt: askedAt, policy: policy, until: until, reason: reason, isForAnswer: true, saving: saving)
      app.pending = pending
      return (wait(for: pending), reason)
    }
    if let saving { return try endWithState(app, askedAt: askedAt, policy, saving) }
    let before = decide(app, askedAt, policy)
    guard before == .suspend else { return try act(on: before, app, askedAt, policy) }
    try stopKeepingDisplay(app)
    // It may have taken one since; now it takes none.
    let after = decide(app, askedAt, policy)
    guard after != .suspend, system.state(of: app.id) == .suspended else { return nil }
    try resume(app.name)
    return try act(on: after, app, askedAt, policy)
  }

  /// Stops an app. Where the display does not answer any more because of that, it goes on at once; what
  /// sway shows is not stopped.
  ///
  /// - Throws: ``ProcessHostError``: `display`, and as ``stop(_:)``.
  private func stopKeepingDisplay(_ app: HostedProcess) throws(ProcessHostError) {
    if let sway = configuration.sway,
      let visible = SwayProbe.visibleProcesses(sway, within: configuration.displayLimit),
      !visible.isDisjoint(with: app.group.members(by: ProcessLook()))
    {
      throw ProcessHostError(
        .display(app.name, "a window of it is visible, and what sway shows would end of it; hide it first"))
    }
    guard let display = configuration.display else { return try stop(app) }
    let limit = configuration.displayLimit
    switch DisplayProbe.open(display, within: limit) {
    case .absent: try stop(app)
    case .silent:
      // Whoever holds it may be of this app, and would hold it as long as it is frozen.
      throw ProcessHostError(
        .display(app.name, "\(display.name) does not answer within \(limit), and the app may be why"))
    case .open(let probe):
      guard probe.mayBeHeld(by: app.group.members(by: ProcessLook())) else { return try stop(app) }
      var late: ProcessHostError?
      do throws(ProcessHostError) { try stop(app) } catch { late = error }
      if !probe.answers() {
        try resume(app.name)
        throw ProcessHostError(
          .display(
            app.name,
            "\(display.name) did not answer within \(limit) while it was suspended, "
              + "as where it holds a grab"))
      }
      if let late { throw late }
    }
  }

  private func decide(_ app: HostedProcess, _ askedAt: Moment, _ policy: LockPolicy) -> LockPolicy.Decision {
    if policy.answer == .ignore { return .suspend }
    return policy.decide(HeldLocks.look(at: app.group.members()), askedAt: askedAt, now: now)
  }

  private func act(
    on decision: LockPolicy.Decision, _ app: HostedProcess, _ askedAt: Moment, _ policy: LockPolicy
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    switch decision {
    case .suspend: return nil
    case .wait(let until, let reason):
      app.pending = PendingSuspension(askedAt: askedAt, policy: policy, until: until, reason: reason)
      return (until - now, reason)
    case .refuse(let reason):
      throw ProcessHostError(.locked(app.name, reason, isTerminated: false))
    case .terminate(let reason):
      try terminate(app.name)
      throw ProcessHostError(.locked(app.name, reason, isTerminated: true))
    }
  }

  /// The kernel continues what is left of a stopped job whose first process has ended, if nobody of its
  /// session is its parent then (setpgid(2), orphaned process groups); and who is moved out of a frozen group
  /// goes on. (R-FTS-06)
  func stopAgain(_ app: HostedProcess) {
    guard apps[app.name] === app, standIn == nil, app.checkpoint == nil,
      [.suspended, .hibernated].contains(system.state(of: app.id))
    else { return }
    do throws(ProcessHostError) { try app.group.freeze(within: configuration.freezeLimit) } catch {
      app.note(["\(error)"])
    }
  }

  /// How long who asks should wait; an answer may come much sooner than its grace ends.
  private func wait(for pending: PendingSuspension) -> Duration {
    let left = pending.until - now
    return pending.isForAnswer ? min(left, .milliseconds(50)) : left
  }

  /// By somebody's word it is not to be suspended any more.
  func takeBackSuspension(of app: HostedProcess) {
    if app.pending?.saving != nil {
      outcomes[app.name] = ProcessHostError(
        .notHibernated(app.name, "it was told to go on before its state was saved"))
    }
    dropState(of: app, app.pending?.saving)
    app.pending = nil
    app.isReanimated = false
    endFarewell(app)
  }

  /// The grace is over.
  func lookAgain(at app: HostedProcess, _ pending: PendingSuspension) {
    app.pending = nil
    do throws(ProcessHostError) {
      // The grace for locks begins when it has answered.
      _ = try suspend(
        app, askedAt: pending.isForAnswer ? now : pending.askedAt, pending.policy,
        saving: pending.saving)
    } catch {
      outcomes[app.name] = error
      app.note([error.message])
    }
  }

  /// Its time in background is over. Where its locks keep it, it stays until it comes there anew.
  func backgroundIsOver(_ app: HostedProcess) {
    app.backgroundEnd = nil
    do throws(ProcessHostError) {
      let wait = try suspend(app.name)?.wait
      if app.checkpoint != nil, let wait { app.backgroundEnd = now + wait }
    } catch { app.note([error.message]) }
  }

  /// - Parameter exemption: `nil`: it may be suspended again, also where its manifest says no.
  func keep(_ name: String, _ exemption: Exemption?) throws(ProcessHostError) {
    let app = try app(name)
    if exemption != nil {
      guard system.state(of: app.id)?.mayExecute == true else {
        throw ProcessHostError(.lifecycle(name, "it does not run: it is \(stateName(app))"))
      }
      takeBackSuspension(of: app)
    }
    if exemption == nil { app.isKeptByManifest = false }
    app.exemption = exemption
  }
}
