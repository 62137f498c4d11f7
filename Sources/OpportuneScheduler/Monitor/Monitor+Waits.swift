internal import COpportune

/// Warnings about foreground work that waits for a suspended app. Of which is decided by ``SuspendedWaits``.
extension Monitor {
  func noteSuspendedWait(of waiter: UInt64, for app: AppRecord, _ engine: Engine) {
    note([(waiter, app.number)], engine)
  }

  /// Notes waits after an app has changed its band: its waits may be foreground waits now.
  func noteSuspendedWaits(_ engine: Engine) {
    let found = apps.compactMap { app in
      app.isGone || !opp_app_state_read(app.raw).suspended ? nil : app.waiter.map { ($0, app.number) }
    }
    if !found.isEmpty { note(found, engine) }
  }

  private func note(_ found: [(waiter: UInt64, app: UInt64)], _ engine: Engine) {
    suspendedWaits.note(
      found, lookAt: opp_now_ns().saturatingAdd(engine.waitWarningDelay), waitingApps())
  }

  /// Logs the warnings that are due. Returns when to call this again, or `.max`.
  func warnOfSuspendedWaits(_ engine: Engine) -> UInt64 {
    guard suspendedWaits.next != .max else { return .max }
    let due = suspendedWaits.takeDue(at: opp_now_ns(), delay: engine.waitWarningDelay, waitingApps())
    for (waiter, suspended) in due {
      engine.log(
        .warning, "foreground work waits for a suspended app, until that is resumed",
        ["app": "\(name(of: waiter))", "suspended": "\(name(of: suspended))"])
    }
    return suspendedWaits.next
  }

  /// The apps by their numbers.
  private func waitingApps() -> SuspendedWaits.Sight {
    let known = Dictionary(
      apps.lazy.filter { !$0.isGone }.map { ($0.number, $0) }, uniquingKeysWith: { first, _ in first })
    return { number in known[number].map(Self.waitingApp) }
  }

  private static func waitingApp(_ app: AppRecord) -> SuspendedWaits.App {
    let state = opp_app_state_read(app.raw)
    return SuspendedWaits.App(
      isSuspended: state.suspended, generation: state.generation,
      isOfForeground: app.band > .background,
      // Like AppCore.isQuiet. relaxed: a count that is missed has just changed, and the next look comes
      // later.
      isQuiet: opp_app_running(app.raw) == 0 && app.donatedInside.load(ordering: .relaxed) == 0,
      waiter: app.waiter, endedWaits: app.endedWaits)
  }

  private func name(of number: UInt64) -> String { apps.first { $0.number == number }?.name ?? "?" }
}
