internal import Glibc
internal import OpportuneApps

extension HostCore {
  /// Carries out one effect on the processes of an app.
  ///
  /// - Returns: what the system hears of it, after the other effects of the same event.
  func carryOut(_ action: AppEffect, of app: HostedProcess) -> AppEvent? {
    switch action {
    case .lifecycle(let effect): return carryOut(effect, of: app)
    case .restrict(let restrictions):
      switch restrictions.cpu {
      case .foreground:
        app.backgroundEnd = nil
        app.note(app.classes.set(isBackground: false, of: app.group.members))
      case .background:
        app.backgroundEnd = app.declared?.backgroundTime.map { now + $0 }
        app.note(app.classes.set(isBackground: true, of: app.group.members))
      case .none: app.backgroundEnd = nil  // it is frozen or ended, by effects of their own
      }
    case .taskBegan(let task): app.task = task
    case .taskRefused(let reason): app.note(["it may not run in background: \(reason.rawValue)"])
    case .taskEnded(let task): if app.task == task { app.task = nil }
    // Who has a grace of its own is killed when that is over.
    case .diagnose(.callbackOverrun(.willTerminate)): if app.killAt == nil { kill(app) }
    case .diagnose(.sliceOverrun): app.note(["not all of it had stopped in time"])
    case .launched, .moved, .ignored, .expire, .pauseAudio, .resumeAudio, .deliver, .coalesced, .notify, .ask,
      .data, .heartbeat, .fetch, .locationEvent, .completion, .granted, .denied, .revoked, .lockGranted,
      .lockRevoked, .diagnose:
      break  // of services that a program which was not written for the host does not use
    }
    return nil
  }

  private func carryOut(_ effect: LifecycleEffect, of app: HostedProcess) -> AppEvent? {
    switch effect {
    case .deliver(.willTerminate):
      app.killAt = app.declared?.grace.map { now + $0 }
      app.group.signal(SIGTERM)
      // Stopped from a terminal, it would not hear of it.
      app.group.signal(SIGCONT)
      return nil  // its return is its end, and the system's limit of callbacks is the grace
    case .deliver(let callback): return .returned(callback)
    case .stopExecution:
      do throws(ProcessHostError) {
        try app.classes.hurrying { () throws(ProcessHostError) in
          try app.group.freeze(within: configuration.freezeLimit)
        }
        return .stopped
      } catch {
        app.note(["\(error)"])
        return nil
      }
    case .resumeExecution:
      do throws(ProcessHostError) { try app.group.thaw() } catch { app.note(["\(error)"]) }
      return nil
    case .takeBack:
      // Who has been sent SIGTERM has its grace.
      let view = system.view(of: app.id)
      if view?.state == .terminated, view?.callbacks.contains(.willTerminate) != true { kill(app) }
      return nil
    // There is no store for the memory of processes yet; nobody can ask for it.
    case .start, .takeSnapshot, .saveState, .restoreState, .deleteState, .warnOfMemory: return nil
    }
  }

  func kill(_ app: HostedProcess) {
    do throws(ProcessHostError) { try app.group.kill() } catch { app.note(["\(error)"]) }
  }
}
