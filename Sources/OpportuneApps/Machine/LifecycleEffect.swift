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

/// What a move of the table asks of a host. A host carries them out in order.
public enum LifecycleEffect: Sendable, Hashable {
  /// Make what the app runs on.
  case start
  /// Run a callback, after those that were asked for before.
  case deliver(Callback)
  /// Let nothing of it start any more, and say `stopped` when nothing runs.
  case stopExecution
  /// Let it run again.
  case resumeExecution
  /// Keep its current image for the switcher. (R-LIFE-20)
  case takeSnapshot
  /// Write its memory to the store.
  case saveState
  /// Bring its memory back, and free the store.
  case restoreState
  /// Forget its memory, wherever it is.
  case deleteState
  /// Ask it to release memory.
  case warnOfMemory
  /// Cancel what is queued, refuse what comes, take back I/O and regions, and say `reap` when nothing runs.
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
