/// A callback of an app's delegate, and the notification of the same name. (R-LIFE-18)
public enum Callback: String, Sendable, Hashable, CaseIterable, Codable {
  /// ``AppDelegate/didFinishLaunching(_:)``
  case didFinishLaunching
  /// ``AppDelegate/willEnterForeground()``
  case willEnterForeground
  /// ``AppDelegate/didBecomeActive()``
  case didBecomeActive
  /// ``AppDelegate/willResignActive()``
  case willResignActive
  /// ``AppDelegate/didEnterBackground()``
  case didEnterBackground
  /// ``AppDelegate/willTerminate()``
  case willTerminate
}

/// An effect that a move of the table requests from the host. The host carries effects out in order.
public enum LifecycleEffect: Sendable, Hashable {
  /// Create what the app runs on.
  case start
  /// Run a callback, after those that were asked for before.
  case deliver(Callback)
  /// Start no further code of the app, and post `stopped` when none runs.
  case stopExecution
  /// Let the app run again.
  case resumeExecution
  /// Store its current image for the switcher. (R-LIFE-20)
  case takeSnapshot
  /// Write its memory to the store.
  case saveState
  /// Restore its memory, and free the store.
  case restoreState
  /// Delete its saved memory.
  case deleteState
  /// Ask it to release memory.
  case warnOfMemory
  /// Cancel queued work, refuse new work, release I/O and regions, and post `reap` when no code runs.
  case takeBack

  /// The name in tables and logs.
  package var name: String {
    switch self {
    case .start: "start"
    case .deliver(let callback): callback.rawValue
    case .stopExecution: "stop execution"
    case .resumeExecution: "resume execution"
    case .takeSnapshot: "take snapshot"
    case .saveState: "save state"
    case .restoreState: "restore state"
    case .deleteState: "delete state"
    case .warnOfMemory: "warn of memory"
    case .takeBack: "take back"
    }
  }
}

extension LifecycleEffect: CustomStringConvertible {
  public var description: String { name }
}
