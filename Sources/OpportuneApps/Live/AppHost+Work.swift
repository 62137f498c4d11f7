import OpportuneScheduler

/// The CPU time of apps in background, told to the system while a limit depends on it, else when they leave
/// it. (R-TASK-03,
/// R-TASK-05, R-TASK-17, R-RULE-01)
extension AppHost {
  /// What is known of an app's CPU time.
  final class WorkMeter {
    /// At the last look since it went to background.
    var seen: Duration?
    var looks: Task<Void, Never>?
    /// What it had used as it went to background, and when that was.
    var stay: (used: Task<Duration, Never>, since: Moment)?
  }

  /// An app has changed state, or began a task.
  func watchWork(_ id: AppID) {
    guard let resident = residents[id] else { return }
    let (meter, app) = (resident.work, resident.app)
    watchStay(meter, app)
    guard policy.tasks.cpuTime != nil || policy.tasks.idleLimit != nil else { return }
    guard system.state(of: id) == .background else {
      meter.looks?.cancel()
      meter.looks = nil
      meter.seen = nil
      return
    }
    guard meter.looks == nil, meter.seen == nil || workPause(app) != nil else { return }
    let clock = control.clock
    meter.looks = beside { host in
      while let pause = await host.value?.look(at: app) {
        guard (try? await clock.sleep(for: pause)) != nil else { return }
      }
    }
  }

  /// Measures what an app uses in background as a whole, for which nothing has to wake up. (R-RULE-01)
  private func watchStay(_ meter: WorkMeter, _ app: HostedApp) {
    if system.state(of: app.id) == .background {
      // Audio has its own measure.
      guard meter.stay == nil, system.audio(of: app.id) != .playing else { return }
      let used = Task(executorPreference: control.executor, priority: .high) { await app.app.cpuTime() }
      meter.stay = (used, clock)
      return
    }
    guard let (before, since) = meter.stay else { return }
    meter.stay = nil
    let stay = clock - since
    guard stay * scheduler.width > .seconds(1) else { return }  // in less no rule is broken
    beside { host in
      let used = await app.app.cpuTime() - before.value
      try? await host.value?.post(.app(app.id, .compliance(.hasWorkedInBackground(used, of: stay))))
    }
  }

  /// Tells the system what the app has used since the last look. Returns when to look again: as the system
  /// asks for, at most once a quantum, as the scheduler looks no closer either.
  private func look(at app: HostedApp) async -> Duration? {
    let used = await app.app.cpuTime()
    guard !Task.isCancelled, let meter = residents[app.id]?.work, residents[app.id]?.app === app else {
      return nil
    }
    let new = used - (meter.seen ?? used)
    meter.seen = max(used, meter.seen ?? used)
    if new > .zero {
      meter.stay = nil  // the system judges by what it is told on the way
      try? post(.app(app.id, .worked(new)))
    }
    guard !Task.isCancelled else { return nil }
    let pause = workPause(app)
    if pause == nil { meter.looks = nil }
    return pause
  }

  private func workPause(_ app: HostedApp) -> Duration? {
    system.workInterval(of: app.id, cores: scheduler.width).map {
      max($0, scheduler.configuration.quantum.quantum)
    }
  }
}
