extension Lifecycle {
  private static func always(_ outcome: Outcome) -> Cell { [(.always, outcome)] }
  private static func to(_ state: LifecycleState, _ effects: LifecycleEffect...) -> Cell {
    always(.move(state, effects))
  }
  private static func ignore(_ reason: String) -> Cell { always(.ignore(reason)) }
  private static func refuse(_ reason: LifecycleError.Code) -> Cell { always(.refuse(reason)) }

  /// The rules of one pair. Every pair is decided; the last rule of each has no guard.
  static func cell(_ state: LifecycleState, _ event: LifecycleEvent) -> Cell {
    switch state {
    case .notRunning, .terminated: gone(event, isTerminated: state == .terminated)
    case .active, .inactive: foreground(event, isActive: state == .active)
    case .background: background(event)
    case .stopping: stopping(event)
    case .suspended: suspended(event)
    case .hibernated: hibernated(event)
    }
  }

  private static let launchToBackground: [LifecycleEffect] = [
    .start, .deliver(.didFinishLaunching), .deliver(.didEnterBackground),
  ]

  /// A terminated app differs from one that is not running in the resources that are still being released.
  private static func gone(_ event: LifecycleEvent, isTerminated: Bool) -> Cell {
    switch event {
    case .launchForeground, .bringForward: to(.inactive, .start, .deliver(.didFinishLaunching))
    case .launchBackground:
      [(.fact(.backgroundAllowed), .move(.background, launchToBackground))] + refuse(.backgroundNotAllowed)
    case .reanimate, .locationEvent:
      [
        (.not(.backgroundAllowed), .ignore("it does not run in background")),
        (.fact(.launchedByEvents), .move(.background, launchToBackground)),
      ] + ignore("events do not launch it")
    case .interrupt, .endInterruption: ignore("it is not in front")
    case .leave: ignore("it is not in front")
    case .memoryWarning: ignore("it holds no memory")
    case .terminate: ignore("it does not run")
    case .reap: isTerminated ? to(.notRunning) : ignore("nothing of it is left")
    case .exit: isTerminated ? to(.notRunning) : refuse(.notRunning)
    case .activate, .suspend, .stopped, .hibernate, .overrun: refuse(.notRunning)
    }
  }

  private static func foreground(_ event: LifecycleEvent, isActive: Bool) -> Cell {
    let resign: [LifecycleEffect] = isActive ? [.deliver(.willResignActive)] : []
    switch event {
    case .launchForeground, .bringForward: return ignore("it is in front")
    case .launchBackground, .reanimate, .locationEvent: return ignore("it runs")
    case .activate, .endInterruption:
      if isActive { return ignore("it is active") }
      return [(.fact(.interrupted), .ignore("an interruption goes on"))]
        + to(.active, .deliver(.didBecomeActive))
    case .interrupt:
      return isActive ? to(.inactive, .deliver(.willResignActive)) : ignore("it is inactive")
    case .leave:
      return [(.fact(.backgroundAllowed), .move(.background, resign + [.deliver(.didEnterBackground)]))]
        + always(.move(.terminated, resign + [.deliver(.willTerminate), .deleteState, .takeBack]))
    case .suspend, .hibernate: return refuse(.inForeground)
    case .stopped: return refuse(.notStopping)
    case .memoryWarning: return to(isActive ? .active : .inactive, .warnOfMemory)
    case .terminate:
      return always(.move(.terminated, resign + [.deliver(.willTerminate), .deleteState, .takeBack]))
    case .overrun: return to(.terminated, .deleteState, .takeBack)
    case .exit: return to(.notRunning, .deleteState, .takeBack)
    case .reap: return refuse(.notTerminated)
    }
  }

  private static func background(_ event: LifecycleEvent) -> Cell {
    switch event {
    case .launchForeground, .bringForward: to(.inactive, .deliver(.willEnterForeground))
    case .launchBackground, .reanimate, .locationEvent: ignore("it is in background")
    case .activate: refuse(.notInForeground)
    case .interrupt, .endInterruption, .leave: ignore("it is not in front")
    case .suspend:
      [
        (.fact(.asserted), .refuse(.asserted)),
        (.fact(.holdsLocks), .move(.terminated, [.deliver(.willTerminate), .deleteState, .takeBack])),
      ] + to(.stopping, .stopExecution)
    case .stopped: refuse(.notStopping)
    case .hibernate: refuse(.executing)
    case .memoryWarning: to(.background, .warnOfMemory)
    case .terminate: to(.terminated, .deliver(.willTerminate), .deleteState, .takeBack)
    case .overrun: to(.terminated, .deleteState, .takeBack)
    case .exit: to(.notRunning, .deleteState, .takeBack)
    case .reap: refuse(.notTerminated)
    }
  }

  /// No code may start. So no callback is delivered before execution is resumed, and none at the app's end.
  private static func stopping(_ event: LifecycleEvent) -> Cell {
    switch event {
    case .launchForeground, .bringForward: to(.inactive, .resumeExecution, .deliver(.willEnterForeground))
    case .reanimate, .locationEvent: to(.background, .resumeExecution)
    case .launchBackground: ignore("it is in background")
    case .activate: refuse(.notInForeground)
    case .interrupt, .endInterruption, .leave: ignore("it is not in front")
    case .suspend: ignore("it is being suspended")
    case .stopped: to(.suspended, .takeSnapshot)
    case .hibernate: refuse(.executing)
    case .memoryWarning: ignore("it can run nothing")
    case .terminate: to(.terminated, .deleteState, .takeBack)
    case .overrun: to(.terminated, .deleteState, .takeBack)
    case .exit: to(.notRunning, .deleteState, .takeBack)
    case .reap: refuse(.notTerminated)
    }
  }

  private static func suspended(_ event: LifecycleEvent) -> Cell {
    switch event {
    case .launchForeground, .bringForward: to(.inactive, .resumeExecution, .deliver(.willEnterForeground))
    case .reanimate, .locationEvent: to(.background, .resumeExecution)
    case .launchBackground: ignore("it was launched")
    case .activate: refuse(.notInForeground)
    case .interrupt, .endInterruption, .leave: ignore("it is not in front")
    case .suspend, .stopped: ignore("it is suspended")
    case .hibernate: to(.hibernated, .saveState)
    case .memoryWarning: ignore("it can run nothing")
    case .terminate: to(.terminated, .deleteState, .takeBack)
    case .overrun: ignore("it executes nothing")
    case .exit: to(.notRunning, .deleteState, .takeBack)
    case .reap: refuse(.notTerminated)
    }
  }

  private static func hibernated(_ event: LifecycleEvent) -> Cell {
    switch event {
    case .launchForeground, .bringForward:
      to(.inactive, .restoreState, .resumeExecution, .deliver(.willEnterForeground))
    case .reanimate, .locationEvent: to(.background, .restoreState, .resumeExecution)
    case .launchBackground: ignore("it was launched")
    case .activate: refuse(.notInForeground)
    case .interrupt, .endInterruption, .leave: ignore("it is not in front")
    case .suspend, .stopped: ignore("it executes nothing")
    case .hibernate: ignore("it is hibernated")
    case .memoryWarning: ignore("it holds no memory")
    case .terminate: to(.terminated, .deleteState, .takeBack)
    case .overrun: ignore("it executes nothing")
    case .exit: to(.notRunning, .deleteState, .takeBack)
    case .reap: refuse(.notTerminated)
    }
  }
}
