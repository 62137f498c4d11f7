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
      if app.isInFront {
        app.used = now
        if restrictions.cpu == .background { judgeSoonByDevices(app) }
      }
      app.isInFront = restrictions.cpu == .foreground
      app.wasInFront = app.wasInFront || app.isInFront
      app.restrictions = restrictions
      switch restrictions.cpu {
      case .foreground:
        app.limits.set(restrictions, members: app.group.members)
        app.backgroundEnd = nil
        (app.lowersLater, app.isJudgedByDevices) = (false, false)
        app.note(app.classes.set(isBackground: false, of: app.group.members))
      case .background:
        app.backgroundEnd = app.declared?.backgroundTime.map { now + $0 }
        app.lowersLater = true
        lowerOnceAnswered(app)
      case .none:  // it is frozen or ended, by effects of their own
        app.backgroundEnd = nil
        (app.lowersLater, app.isJudgedByDevices) = (false, false)
        app.limits.set(restrictions, members: app.group.members)
      }
    case .taskBegan(let task): app.task = task
    case .taskRefused(let reason): app.note(["it may not run in background: \(reason.rawValue)"])
    case .taskEnded(let task): if app.task == task { app.task = nil }
    case .deliver(let message): deliver(message, to: app)
    case .diagnose(.sliceOverrun): app.note(["not all of it had stopped in time"])
    case .heartbeat: break  // once all else of the event is done: see the caller
    case .launched, .moved, .ignored, .expire, .pauseAudio, .resumeAudio, .coalesced, .notify, .ask,
      .data, .fetch, .locationEvent, .completion, .granted, .denied, .revoked, .lockGranted,
      .lockRevoked, .diagnose:
      break  // of services that a program which was not written for the host does not use
    }
    return nil
  }

  private func carryOut(_ effect: LifecycleEffect, of app: HostedProcess) -> AppEvent? {
    switch effect {
    case .deliver(let callback):
      if let client = app.client {
        client.ask(.callback(callback), now: now)
        return nil
      }
      guard callback == .willTerminate else { return .returned(callback) }
      askToEnd(app)
      return nil  // its return is its end
    case .stopExecution:
      app.pageIn?.cancel()
      do throws(ProcessHostError) {
        try app.classes.hurrying { () throws(ProcessHostError) in
          try app.group.freeze(within: configuration.freezeLimit)
        }
        // Of requests before.
        app.notes.removeAll { $0.hasPrefix("app '\(app.name)' is not suspended:") }
        // What was found meanwhile.
        app.note(maker.note(app.name, app.mark, app.group))
        // A group that is close to its limit may have found nothing to take.
        if !configuration.groupPressures.isEmpty { looksAtGroups = now }
        for socket in app.client?.sockets.values ?? [:].values { socket.arm(now: now) }
        return .stopped
      } catch {
        app.note(["\(error)"])
        return nil
      }
    case .resumeExecution:
      stopPagingOut(app)
      app.notCheckpointed = nil
      do throws(ProcessHostError) { try app.group.thaw() } catch { app.note(["\(error)"]) }
      endFarewell(app)
      return nil
    case .warnOfMemory:
      app.client?.ask(.memoryWarning, now: now)
      return nil
    case .takeBack:
      // Who has been told has its grace.
      let view = system.view(of: app.id)
      if view?.state == .terminated, view?.callbacks.contains(.willTerminate) != true { kill(app) }
      return nil
    case .saveState:
      saveState(of: app)
      return nil
    // The kernel has its content, brings it back by itself, and drops it with the processes.
    case .start, .takeSnapshot, .restoreState, .deleteState: return nil
    }
  }

  func kill(_ app: HostedProcess) {
    do throws(ProcessHostError) { try app.group.kill() } catch { app.note(["\(error)"]) }
  }
}
