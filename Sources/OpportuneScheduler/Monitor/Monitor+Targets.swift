internal import COpportune
import Logging

/// Targets of apps: how many workers background work may have. The policy is in ``TargetPolicy``. Looks come
/// with the tick, so only while jobs run, and only while there is a target or a cap.
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
      let state = opp_app_state_read(app.place)
      if state.band > Band.background.rawValue, !state.suspended {
        readings.append(TargetPolicy.Reading(app: app.number, p99: p99, requests: meter.requests))
      }
      return false
    }
    let change = targets.policy.look(
      readings, running: backgroundRunning(in: pool), width: engine.width, now: opp_now_ns())
    guard let change else { return }
    // At the whole width there is no cap: a width that grows later counts at once.
    pool.cap = targets.policy.cap ?? .max
    engine.resize(pool)
    tell(change, engine)
  }

  /// Demoted foreground work has a run token of this pool at times, and is no background work.
  private func backgroundRunning(in pool: PoolState) -> Int {
    pool.workers.count { worker in
      guard let worker, worker.state == .OPP_SLOT_RUNNING else { return false }
      return worker.report.read()?.band == .background
    }
  }

  private func tell(_ change: TargetPolicy.Change, _ engine: Engine) {
    if change.to < change.from { targets.share.cuts += 1 }
    if change.to > change.from { targets.share.raises += 1 }
    let app = targets.apps.first { $0.number == change.app }?.name
    (targets.share.reason, targets.share.app) = (change.reason, app)
    var metadata: Logger.Metadata = [
      "from": "\(change.from)", "to": "\(change.to)", "reason": "\(change.reason.rawValue)",
    ]
    if let app { metadata["app"] = "\(app)" }
    if change.reason == .outOfReach {
      engine.log(.notice, "a target is missed, and background cannot give more for it", metadata)
    } else {
      engine.log(.info, "workers of background work changed for a target", metadata)
    }
  }
}
