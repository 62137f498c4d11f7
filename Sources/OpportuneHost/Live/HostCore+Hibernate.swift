internal import OpportuneApps
internal import OpportuneBase

/// Hibernation: what is suspended leaves main memory as well, as far as the kernel takes it. (R-LIFE-07,
/// R-MEM-05)
extension HostCore {
  /// Suspends an app as ``suspend(_:locks:isAgain:)`` does, and pages it out then. Where the kernel does not
  /// take what it has in main memory, a checkpoint is made of it, or it saves its state and is ended.
  ///
  /// - Returns: how long it goes on until it is looked at again, and why; `nil`: it is hibernated.
  func hibernate(
    _ name: String, locks answer: LockPolicy.Answer? = nil, isAgain: Bool = false
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    if states?.all[name]?.isDue == false { return waitForEnd(name) }
    if inner(name) != nil { _ = try app(name) }
    if let wait = waitForCheckpoint(name) { return wait }
    // One that was told to wait goes on with what was begun for it.
    if let app = apps[name], !isAgain || app.pending == nil && outcomes[name] == nil,
      system.state(of: app.id) != .hibernated, case .savedState(let why) = way(of: app)
    {
      return try save(app, notBetter: why, lockPolicy(of: app, answer))
    }
    if let wait = try suspend(name, locks: answer, isAgain: isAgain) { return wait }
    guard let app = apps[name] else { return nil }
    return try hibernateSuspended(app, lockPolicy(of: app, answer))
  }

  /// Has one that is suspended, or hibernated already, hibernated in the best way.
  func hibernateSuspended(
    _ app: HostedProcess, _ policy: LockPolicy
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    if system.state(of: app.id) == .suspended {
      switch way(of: app) {
      case .pagedOut: break
      case .checkpoint(let why): return try makeCheckpoint(app, notPagedOut: why, policy)
      case .savedState(let why): return try save(app, notBetter: why, policy)
      }
    }
    try post(.hibernate, to: app)
    return nil
  }

  /// Nobody has used it for long. What was refused is tried again after as long.
  func hibernateUnused(_ app: HostedProcess) {
    do throws(ProcessHostError) {
      _ = try hibernateSuspended(app, lockPolicy(of: app))
    } catch {
      app.used = now
      app.note([error.message])
    }
  }

  /// When a suspended app is hibernated that nobody has used; `nil`: never.
  func hibernatesAt(_ app: HostedProcess) -> Moment? {
    guard app.checkpoint == nil, let idle = configuration.hibernatesAfter,
      system.state(of: app.id) == .suspended
    else { return nil }
    return app.used + idle
  }

  /// Its content goes to where the kernel keeps what it pages out: nothing else holds all of a process that
  /// was not written for the host.
  func saveState(of app: HostedProcess) {
    guard app.pageOut == nil else { return }  // memory was short just now
    pageOut([app], .hibernation)
  }

  /// Brings what was swapped of an app back to main memory. Nothing waits for it.
  func pageIn(_ app: HostedProcess) {
    let pageIn = PageIn(app.processes())
    (app.pageIn, app.mayBeSwapped) = (pageIn, false)
    runAside { pageIn.run() }
  }
}
