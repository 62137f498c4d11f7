import OpportuneScheduler

/// The CPU time of apps in background, told to the system while a limit depends on it. (R-TASK-03, R-TASK-05, R-TASK-17)
extension AppHost {
  /// What is known of an app's CPU time.
  final class WorkMeter {
    /// At the last look since it went to background.
    var seen: Duration?
    var looks: Task<Void, Never>?
  }

  /// An app has changed state, or began a task.
  func watchWork(_ id: AppID) {
    guard policy.tasks.cpuTime != nil || policy.tasks.idleLimit != nil, let resident = residents[id] else { return }
    let (meter, app) = (resident.work, resident.app)
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

  /// Tells the system what the app has used since the last look. Returns when to look again: as the system asks for, at
  /// most once a quantum, as the scheduler looks no closer either.
  private func look(at app: HostedApp) async -> Duration? {
    let used = await app.app.cpuTime()
    guard !Task.isCancelled, let meter = residents[app.id]?.work, residents[app.id]?.app === app else { return nil }
    let new = used - (meter.seen ?? used)
    meter.seen = max(used, meter.seen ?? used)
    if new > .zero { try? post(.app(app.id, .worked(new))) }
    guard !Task.isCancelled else { return nil }
    let pause = workPause(app)
    if pause == nil { meter.looks = nil }
    return pause
  }

  private func workPause(_ app: HostedApp) -> Duration? {
    system.workInterval(of: app.id, cores: scheduler.width).map { max($0, scheduler.configuration.quantum.quantum) }
  }
}
