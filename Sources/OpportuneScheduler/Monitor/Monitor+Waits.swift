internal import COpportune

/// Warnings about foreground work that waits for a suspended app. Of which is decided by ``SuspendedWaits``.
extension Monitor {
  func noteSuspendedWait(of waiter: UInt64, for app: AppRecord, _ engine: Engine) {
    suspendedWaits.note(
      of: waiter, for: app.number, lookAt: opp_now_ns().saturatingAdd(engine.waitWarningDelay), waitingApp)
  }

  /// Notes waits after an app has changed its band: its waits may be foreground waits now.
  func noteSuspendedWaits(_ engine: Engine) {
    for app in apps where !app.isGone && opp_app_state_read(app.raw).suspended {
      if let waiter = app.waiter { noteSuspendedWait(of: waiter, for: app, engine) }
    }
  }

  /// Logs the warnings that are due. Returns when to call this again, or `.max`.
  func warnOfSuspendedWaits(_ engine: Engine) -> UInt64 {
    guard suspendedWaits.next != .max else { return .max }
    let due = suspendedWaits.takeDue(at: opp_now_ns(), delay: engine.waitWarningDelay, waitingApp)
    for (waiter, suspended) in due {
      engine.log(
        .warning, "foreground work waits for a suspended app, until that is resumed",
        ["app": "\(name(of: waiter))", "suspended": "\(name(of: suspended))"])
    }
    return suspendedWaits.next
  }

  private func waitingApp(_ number: UInt64) -> SuspendedWaits.App? {
    guard let app = apps.first(where: { $0.number == number && !$0.isGone }) else { return nil }
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
