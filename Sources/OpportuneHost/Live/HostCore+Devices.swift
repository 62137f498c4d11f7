internal import Glibc

extension HostCore {
  func heldDevices(of app: HostedProcess) -> HeldDevices.Answer {
    app.declared?.heldDevices ?? configuration.heldDevices
  }

  /// It has come to background: what it has open there that it may not open decides whether it stays.
  /// (R-GFX-02)
  func judgeByDevices(_ app: HostedProcess) {
    app.isJudgedByDevices = false
    guard let held = HeldDevices.text(of: app.group.members(), app.limits.denied) else { return }
    do throws(ProcessHostError) {
      switch heldDevices(of: app) {
      case .tell: return
      case .suspend:
        // As when its time in background is over: not while it is kept, nor before it has let go of locks.
        app.backgroundEnd = now
        guard let end = app.suspendsAt, end <= now else { return }
        configuration.log("'\(app.name)' is suspended: \(held)")
      case .terminate:
        configuration.log("'\(app.name)' is terminated: \(held)")
        try end(app)
      }
    } catch { app.note([error.message]) }
  }
}
