internal import COpportune
import Logging

/// Targets of apps: how many workers background work may have, and how much of the storage device. The
/// policy is in ``TargetPolicy``, what its levels mean in ``BackgroundLevels``. Looks come with the tick, so
/// only while jobs run, and only while there is a target or a cap.
extension Monitor {
  struct Targets {
    var policy = TargetPolicy()
    /// Those that have a target; a target that was removed goes with the next look.
    var apps: [AppRecord] = []
    var share = SchedulerStatistics.BackgroundShare()

    var isIdle: Bool { apps.isEmpty && policy.cap == nil }
  }

  func addTarget(of app: AppRecord, _ engine: Engine) {
    if !targets.apps.contains(where: { $0 === app }) { targets.apps.append(app) }
    lookAtTargets(engine)  // one that was removed gives back at once, though nothing runs
  }

  func lookAtTargets(_ engine: Engine) {
    guard !targets.isIdle, let pool = engine.pools.first(where: { $0.pool == .background }) else { return }
    var readings: [TargetPolicy.Reading] = []
    targets.apps.removeAll { app in
      guard !app.isGone, let meter = app.meter(orMake: false), let p99 = meter.p99 else { return true }
      let state = opp_app_state_read(app.raw)
      if state.band > Band.background.rawValue, !state.suspended {
        readings.append(TargetPolicy.Reading(app: app.number, p99: p99, requests: meter.requests))
      }
      return false
    }
    let levels = BackgroundLevels(width: engine.width, leastEighths: engine.deviceShare.leastEighths)
    let limit = min(targets.policy.cap ?? levels.top, levels.top)
    let change = targets.policy.look(
      readings, running: levels.level(running: backgroundRunning(in: pool), under: limit), width: levels.top,
      now: opp_now_ns())
    guard let change else { return }
    setBackground(to: targets.policy.cap, engine)
    tell(change, levels, engine)
  }

  /// nil is all. At the whole width there is no cap: a width that grows later counts at once.
  func setBackground(to level: Int?, _ engine: Engine) {
    guard let pool = engine.pools.first(where: { $0.pool == .background }) else { return }
    let levels = BackgroundLevels(width: engine.width, leastEighths: engine.deviceShare.leastEighths)
    pool.cap = level.map { levels.workers(at: $0) } ?? .max
    engine.deviceShare.eighths = levels.eighths(at: level ?? levels.top)
    engine.resize(pool)
  }

  /// Demoted foreground work has a run token of this pool at times, and is no background work.
  private func backgroundRunning(in pool: PoolState) -> Int {
    pool.workers.count { worker in
      guard let worker, worker.state == .OPP_WORKER_RUNNING else { return false }
      return worker.report.read()?.band == .background
    }
  }

  private func tell(_ change: TargetPolicy.Change, _ levels: BackgroundLevels, _ engine: Engine) {
    if change.to < change.from { targets.share.cuts += 1 }
    if change.to > change.from { targets.share.raises += 1 }
    let app = targets.apps.first { $0.number == change.app }?.name
    (targets.share.reason, targets.share.app) = (change.reason, app)
    var metadata: Logger.Metadata = [
      "from": "\(levels.workers(at: change.from))", "to": "\(levels.workers(at: change.to))",
      "reason": "\(change.reason.rawValue)",
    ]
    if levels.movesDevice { metadata["device"] = "\(levels.eighths(at: change.to))/\(DeviceShare.whole)" }
    if let app { metadata["app"] = "\(app)" }
    if change.reason == .outOfReach {
      engine.log(.notice, "a target is missed, and background cannot give more for it", metadata)
    } else {
      engine.log(.info, "what background work may have changed for a target", metadata)
    }
  }
}
