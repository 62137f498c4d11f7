internal import OpportuneApps
internal import OpportuneBase

/// Hibernation: what is suspended leaves main memory as well, as far as the kernel takes it. (R-LIFE-07,
/// R-MEM-05)
extension HostCore {
  /// Suspends an app as ``suspend(_:locks:isAgain:)`` does, and pages it out then; or has it save its state
  /// and ends it, where the kernel does not take what it has in main memory.
  ///
  /// - Returns: how long it goes on until it is looked at again, and why; `nil`: it is hibernated.
  func hibernate(
    _ name: String, locks answer: LockPolicy.Answer? = nil, isAgain: Bool = false
  ) throws(ProcessHostError) -> (wait: Duration, reason: String)? {
    if states?.all[name]?.isDue == false { return waitForEnd(name) }
    // One that was told to wait goes on with what was begun for it.
    if let app = apps[name], !isAgain || app.pending == nil && outcomes[name] == nil,
      system.state(of: app.id) != .hibernated, case .savedState(let why) = way(of: app)
    {
      return try save(app, notPagedOut: why, lockPolicy(of: app, answer))
    }
    if let wait = try suspend(name, locks: answer, isAgain: isAgain) { return wait }
    if let app = apps[name] { try post(.hibernate, to: app) }
    return nil
  }

  /// Nobody has used it for long. What was refused is tried again after as long.
  func hibernateUnused(_ app: HostedProcess) {
    do throws(ProcessHostError) {
      switch way(of: app) {
      case .pagedOut: try post(.hibernate, to: app)
      case .savedState(let why): _ = try save(app, notPagedOut: why, lockPolicy(of: app))
      }
    } catch {
      app.used = now
      app.note([error.message])
    }
  }

  /// When a suspended app is hibernated that nobody has used; `nil`: never.
  func hibernatesAt(_ app: HostedProcess) -> Moment? {
    guard let idle = configuration.hibernatesAfter, system.state(of: app.id) == .suspended else { return nil }
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
