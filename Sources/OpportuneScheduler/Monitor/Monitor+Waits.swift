internal import COpportune

/// Warnings about foreground work that waits for a suspended app: such a wait lasts until the app is resumed.
/// Each is logged once, after a delay.
extension Monitor {
  /// A wait of one app's work for another app that is suspended.
  struct SuspendedWait {
    let app: AppRecord
    let waiter: UInt64
    /// The generation of the suspended app's state; it changes when the app is resumed.
    let generation: UInt64
    /// How many waits for the app had ended at the last look.
    var ended: UInt64
    /// When to look at the wait again, or `.max`.
    var look: UInt64
    var isSaid = false
  }

  /// The waits for suspended apps, each once for each pair of apps and each suspension.
  struct SuspendedWaits {
    private var waits: [SuspendedWait] = []

    /// When to look at them next, or `.max`.
    var next: UInt64 { waits.map(\.look).min() ?? .max }

    mutating func note(of waiter: UInt64, for app: AppRecord, lookAt look: UInt64) {
      waits.removeAll { !$0.isSuspendedStill }
      let wait = SuspendedWait(
        app: app, waiter: waiter, generation: app.state.generation, ended: app.endedWaits, look: look)
      guard wait.isSuspendedStill, !waits.contains(where: { $0.app === app && $0.waiter == waiter }) else {
        return
      }
      waits.append(wait)
    }

    /// Takes those to warn of: who waits, of `apps`, and the suspended app. Others are looked at again
    /// `delay` after `now`.
    mutating func takeDue(
      at now: UInt64, delay: UInt64, of apps: [AppRecord]
    ) -> [(waiter: AppRecord, suspended: AppRecord)] {
      guard !waits.isEmpty else { return [] }
      waits.removeAll { !$0.isSuspendedStill }
      var due: [(waiter: AppRecord, suspended: AppRecord)] = []
      for (index, wait) in waits.enumerated() where wait.look <= now {
        // Not yet a hang. Either a slice that ran at the suspension has not ended, and may be what is waited
        // for. Or a wait has ended since the last look; it may have been this one, and the current one has
        // only begun.
        guard wait.app.waiter == nil || wait.app.isQuiet && wait.app.endedWaits == wait.ended else {
          waits[index].ended = wait.app.endedWaits
          waits[index].look = now.saturatingAdd(delay)
          continue
        }
        waits[index].look = .max
        guard let waiter = wait.waiting(of: apps) else { continue }
        waits[index].isSaid = true
        due.append((waiter, wait.app))
      }
      waits.removeAll { $0.look == .max && !$0.isSaid }
      return due
    }
  }

  func noteSuspendedWait(of waiter: UInt64, for app: AppRecord, _ engine: Engine) {
    suspendedWaits.note(
      of: waiter, for: app, lookAt: opp_now_ns().saturatingAdd(engine.waitWarningDelay))
  }

  /// Notes waits after an app has changed its band: its waits may be foreground waits now.
  func noteSuspendedWaits(_ engine: Engine) {
    for app in apps where !app.isGone && app.state.suspended {
      if let waiter = app.waiter { noteSuspendedWait(of: waiter, for: app, engine) }
    }
  }

  /// Logs the warnings that are due. Returns when to call this again, or `.max`.
  func warnOfSuspendedWaits(_ engine: Engine) -> UInt64 {
    let due = suspendedWaits.takeDue(at: opp_now_ns(), delay: engine.waitWarningDelay, of: apps)
    for (waiter, suspended) in due {
      engine.log(
        .warning, "foreground work waits for a suspended app, until that is resumed",
        ["app": "\(waiter.name)", "suspended": "\(suspended.name)"])
    }
    return suspendedWaits.next
  }
}

extension Monitor.SuspendedWait {
  /// The waiting app; nil where nothing waits any more, or the waiting app has ended, is suspended or is in
  /// the background.
  fileprivate func waiting(of apps: [AppRecord]) -> AppRecord? {
    guard app.waiter != nil else { return nil }
    return apps.first {
      $0.number == waiter && !$0.isGone && !$0.state.suspended && $0.band > .background
    }
  }

  fileprivate var isSuspendedStill: Bool {
    let state = app.state
    return !app.isGone && state.suspended && state.generation == generation
  }
}

extension AppRecord {
  fileprivate var state: opp_app_state { opp_app_state_read(place) }

  /// Like ``AppCore/isQuiet``. relaxed: a count that is missed has just changed, and the next look comes
  /// later.
  fileprivate var isQuiet: Bool { opp_app_running(place) == 0 && donatedInside.load(ordering: .relaxed) == 0 }
}
