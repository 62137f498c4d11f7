/// What the system asks of its host, or tells it.
public enum AppEffect: Sendable, Hashable {
  case lifecycle(LifecycleEffect)
  /// The app was launched; what its launch options say.
  case launched(LaunchReason)
  case moved(from: LifecycleState, to: LifecycleState, by: LifecycleEvent)
  case ignored(LifecycleEvent, String)
  case restrict(Restrictions)

  case taskBegan(TaskID)
  case taskRefused(TaskRefusal)
  /// Run the expiration handler.
  case expire(TaskID)
  case taskEnded(TaskID)

  case pauseAudio
  case resumeAudio

  case deliver(Message)
  /// One for each kind, in the order of their names. (R-COAL-01)
  case coalesced([Change])
  /// Show it to the user.
  case notify(LocalNotification)
  case ask(PromptID, Prompt)
  case data(bytes: Int)
  case heartbeat
  case fetch
  case locationEvent
  case completion

  case granted(Hardware)
  case denied(Hardware)
  case revoked(Hardware)
  case lockGranted(SharedResource)
  case lockRevoked(SharedResource)
  case diagnose(AppDiagnosis)
}

/// The last state of a kind of change. (R-COAL-02)
public struct Change: Sendable, Hashable {
  public let kind: String
  public let value: String
}

/// Why time for a task was refused. (R-TASK-16)
public enum TaskRefusal: String, Sendable, Hashable, CaseIterable {
  /// The service is off, or multitasking is not supported.
  case notSupported
  /// The app's manifest and settings do not declare it, and the policy asks for that.
  case notDeclared
  /// The app does not execute.
  case notExecuting
  /// The time in background is over.
  case timeIsUp
  /// Too many are open.
  case tooMany
}

/// What the user is asked.
public enum Prompt: Sendable, Hashable {
  case message(Message)
  case call(String)
  case text(String)
}

/// Something that the developer or the user of an app should know.
public enum AppDiagnosis: Sendable, Hashable {
  case callbackOverrun(Callback)
  case sliceOverrun
  case fetchOverrun
  case taskNeverEnded(TaskID)
  case idleTask(TaskID)
  case heldLock(SharedResource)
  case gpuInBackground
  case unapprovedLibrary(String)
  case rule(BestPractice)
  /// A slice of a terminated app does not end.
  case unendingSlice
  /// The pages of a drawing buffer could not be replaced, for a reason of the kernel's: until the next change what is
  /// drawn in background shows, or what is drawn in front does not. (R-GFX-03)
  case drawingPagesStay(String)
}

/// An effect and the app that it is for.
public struct Effect: Sendable, Hashable {
  public let app: AppID
  public let action: AppEffect
}

/// Why an event was refused; nothing was changed by it.
public enum AppsError: Error, Sendable, Hashable {
  case lifecycle(AppID, LifecycleError)
  case unknownApp(AppID, registered: Int)
  case clockWentBack(from: Moment, to: Moment)
  /// It returned from what it was not asked to run, or not next.
  case unexpectedReturn(AppID, Callback, expected: Callback?)
  case unknownTask(AppID, TaskID)
  case unknownPrompt(PromptID)
  case notExecuting(AppID, LifecycleState)
  case missingMode(AppID, Manifest.Mode)
  case heartbeatTooShort(AppID, Duration, minimum: Duration)
  case notHeld(AppID, String)
  case noAudio(AppID)
  case negativeTime(AppID, Duration)
  /// Not a date that a calendar has, or not within ``LocalNotification/latest`` of 1970.
  case invalidFireDate(AppID, LocalNotification.FireDate)
  /// Not so many seconds after 1970 as a clock can say.
  case invalidTime(Double)
}

extension AppsError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .lifecycle(let app, let error): "\(app): \(error)"
    case .unknownApp(let app, let registered): "\(app) is not registered; \(registered) apps are"
    case .clockWentBack(let from, let to): "time went back from \(from) to \(to)"
    case .unexpectedReturn(let app, let callback, let expected):
      "\(app) returned from \(callback.rawValue), expected \(expected?.rawValue ?? "no return")"
    case .unknownTask(let app, let task): "\(app) has no open \(task)"
    case .unknownPrompt(let prompt): "\(prompt) is not open"
    case .notExecuting(let app, let state): "\(app) is \(state) and executes nothing"
    case .missingMode(let app, let mode): "\(app) does not declare the background mode '\(mode.rawValue)'"
    case .heartbeatTooShort(let app, let value, let minimum):
      "\(app) asks for a heartbeat every \(value), at least \(minimum) is allowed"
    case .notHeld(let app, let what): "\(app) does not hold \(what)"
    case .noAudio(let app): "\(app) plays and records nothing"
    case .negativeTime(let app, let value): "\(app) cannot have used \(value) of CPU time"
    case .invalidFireDate(let app, let date): "\(app): \(date) is no date of the calendar, or too far from 1970"
    case .invalidTime(let value): "the wall clock is \(value) s after 1970, expected ±\(LocalNotification.latest) s"
    }
  }
}
