import OpportuneScheduler

/// The CPU time of background apps. It is reported to the system during the stay while a limit depends on it,
/// otherwise when the app leaves the background. (R-TASK-03, R-TASK-05, R-TASK-17, R-RULE-01)
extension AppHost {
  /// The measurements of one app's CPU time.
  final class WorkMeter {
    /// The CPU time at the last look since the app went to the background.
    var seen: Duration?
    var looks: Task<Void, Never>?
    /// The CPU time used when the app went to the background, and the time of that.
    var stay: (used: Task<Duration, Never>, since: Moment)?
  }

  /// Called when an app has changed state or begun a task.
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
    guard virtual == nil else {
      beside { _ = await $0.value?.look(at: app) }
      return
    }
    let clock = control.clock
    meter.looks = beside { host in
      while let pause = await host.value?.look(at: app) {
        guard (try? await clock.sleep(for: pause)) != nil else { return }
      }
    }
  }

  /// Measures the CPU time of a whole stay in the background, which needs no wake-up. (R-RULE-01)
  private func watchStay(_ meter: WorkMeter, _ app: HostedApp) {
    if system.state(of: app.id) == .background {
      // Audio is measured separately.
      guard meter.stay == nil, system.audio(of: app.id) != .playing else { return }
      let used = Task(executorPreference: control.executor, priority: .high) { await app.app.cpuTime() }
      meter.stay = (used, clock)
      return
    }
    guard let (before, since) = meter.stay else { return }
    meter.stay = nil
    let stay = clock - since
    guard stay * scheduler.width > .seconds(1) else { return }  // too little to break a rule
    beside { host in
      let used = await app.app.cpuTime() - before.value
      try? await host.value?.post(.app(app.id, .workedInBackground(used, of: stay)))
    }
  }

  /// Reports the CPU time since the last look. Returns the time until the next look: as the system requests,
  /// but at least a quantum, which is the resolution of the scheduler.
  @discardableResult
  func look(at app: HostedApp) async -> Duration? {
    let used = await app.app.cpuTime()
    guard !Task.isCancelled, let meter = residents[app.id]?.work, residents[app.id]?.app === app else {
      return nil
    }
    let new = used - (meter.seen ?? used)
    meter.seen = max(used, meter.seen ?? used)
    if new > .zero {
      meter.stay = nil  // the reports on the way replace it
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
