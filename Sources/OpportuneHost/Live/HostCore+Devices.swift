internal import Glibc

extension HostCore {
  private func heldDevices(of app: HostedProcess) -> HeldDevices.Answer {
    app.declared?.heldDevices ?? configuration.heldDevices
  }

  /// It comes to background from the front, or is taken in there. Not at once: that goes through all that it
  /// has open, and may end it amidst other effects.
  func judgeSoonByDevices(_ app: HostedProcess) {
    guard heldDevices(of: app) != .tell else { return }
    app.isJudgedByDevices = true
    wakeUp()
  }

  /// What it has open in background that it may not open there decides whether it stays, once it has
  /// answered, and is not kept. (R-GFX-02)
  func judgeByDevices(_ app: HostedProcess) {
    guard app.isJudgedByDevices, !app.lowersLater, app.declaredKeep == nil,
      app.exemption?.isOver(at: now) != false
    else { return }
    app.isJudgedByDevices = false
    guard let held = HeldDevices.text(of: app.group.members(by: ProcessLook()), app.limits.denied) else {
      return
    }
    do throws(ProcessHostError) {
      switch heldDevices(of: app) {
      case .tell: return
      case .suspend:
        configuration.log("'\(app.name)' is suspended: \(held)")
        // As when its time in background is over, so not before it has let go of locks.
        app.backgroundEnd = now
      case .terminate:
        configuration.log("'\(app.name)' is terminated: \(held)")
        try end(app)
      }
    } catch { app.note([error.message]) }
  }
}
