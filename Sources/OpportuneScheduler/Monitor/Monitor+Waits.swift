internal import COpportune

/// Foreground work that waits for a suspended app: for ever, unless somebody resumes that. Said once, after a
/// while.
extension Monitor {
  /// Of one app for another, while that stays suspended.
  struct SuspendedWait {
    let app: AppRecord
    let waiter: UInt64
    /// Of the app's state, which is another once it was resumed.
    let generation: UInt64
    /// How many waits for the app had ended when this was noted, or looked at last.
    var ended: UInt64
    /// When to look whether the wait is still on, or `.max`.
    var look: UInt64
    var isSaid = false
  }

  /// Once for each pair of apps and suspension.
  func noteSuspendedWait(of waiter: UInt64, for app: AppRecord, _ engine: Engine) {
    suspendedWaits.removeAll { !$0.isSuspendedStill }
    let wait = SuspendedWait(
      app: app, waiter: waiter, generation: app.state.generation, ended: app.endedWaits,
      look: opp_now_ns().saturatingAdd(engine.waitWarningDelay))
    guard wait.isSuspendedStill, !suspendedWaits.contains(where: { $0.app === app && $0.waiter == waiter })
    else {
      return
    }
    suspendedWaits.append(wait)
  }

  /// An app has changed its band: what it waits for may concern the foreground now.
  func noteSuspendedWaits(_ engine: Engine) {
    for app in apps where !app.isGone && app.state.suspended {
      if let waiter = app.waiter { noteSuspendedWait(of: waiter, for: app, engine) }
    }
  }

  /// Says what is due. Returns when to come again, or `.max`.
  func warnOfSuspendedWaits(_ engine: Engine) -> UInt64 {
    guard !suspendedWaits.isEmpty else { return .max }
    let now = opp_now_ns()
    suspendedWaits.removeAll { !$0.isSuspendedStill }
    for (index, wait) in suspendedWaits.enumerated() where wait.look <= now {
      // What was running as it was suspended may be what is waited for, and comes to its end. And where a
      // wait has ended, as for a task that had returned, that may have been this one, and who waits now has
      // only begun to.
      guard wait.app.waiter == nil || wait.app.isQuiet && wait.app.endedWaits == wait.ended else {
        suspendedWaits[index].ended = wait.app.endedWaits
        suspendedWaits[index].look = now.saturatingAdd(engine.waitWarningDelay)
        continue
      }
      suspendedWaits[index].look = .max
      guard let waiter = waiting(in: wait) else { continue }
      suspendedWaits[index].isSaid = true
      engine.log(
        .warning, "foreground work waits for a suspended app, until that is resumed",
        ["app": "\(waiter.name)", "suspended": "\(wait.app.name)"])
    }
    suspendedWaits.removeAll { $0.look == .max && !$0.isSaid }
    return nextSuspendedLook
  }

  var nextSuspendedLook: UInt64 { suspendedWaits.map(\.look).min() ?? .max }

  /// nil where nobody waits any more, or the waiting app is gone, or not in the foreground itself.
  private func waiting(in wait: SuspendedWait) -> AppRecord? {
    guard wait.app.waiter != nil else { return nil }
    return apps.first {
      $0.number == wait.waiter && !$0.isGone && !$0.state.suspended && $0.band > .background
    }
  }
}

extension Monitor.SuspendedWait {
  fileprivate var isSuspendedStill: Bool {
    let state = app.state
    return !app.isGone && state.suspended && state.generation == generation
  }
}

extension AppRecord {
  fileprivate var state: opp_app_state { opp_app_state_read(place) }

  /// As ``AppCore/isQuiet``. relaxed: who is missed has just begun or ended, and the next look is a while
  /// later.
  fileprivate var isQuiet: Bool { opp_app_running(place) == 0 && donatedInside.load(ordering: .relaxed) == 0 }
}
