/// What the system asks of its host, or tells it.
public enum AppEffect: Sendable, Hashable {
  /// A step of the lifecycle, which the host carries out.
  case lifecycle(LifecycleEffect)
  /// The app was launched; what its launch options say.
  case launched(LaunchReason)
  /// It is in another state.
  case moved(from: LifecycleState, to: LifecycleState, by: LifecycleEvent)
  /// An event had no effect, and why.
  case ignored(LifecycleEvent, String)
  /// What it may use from now on.
  case restrict(Restrictions)

  /// It got time for a task.
  case taskBegan(TaskID)
  /// It got no time, and why.
  case taskRefused(TaskRefusal)
  /// Run the expiration handler.
  case expire(TaskID)
  /// A task is over.
  case taskEnded(TaskID)

  /// Its audio pauses.
  case pauseAudio
  /// Its audio may go on.
  case resumeAudio

  /// A message reaches it.
  case deliver(Message)
  /// One for each kind, in the order of their names. (R-COAL-01)
  case coalesced([Change])
  /// Show it to the user.
  case notify(LocalNotification)
  /// Ask the user; the answer comes back as ``SystemEvent/answer(_:accepted:)``.
  case ask(PromptID, Prompt)
  /// Data reaches it.
  case data(bytes: Int)
  /// Its heartbeat is due.
  case heartbeat
  /// It may fetch.
  case fetch
  /// A location or a crossing reaches it.
  case locationEvent
  /// A completion of the kernel's reaches it.
  case completion

  /// It has the hardware.
  case granted(Hardware)
  /// It does not get the hardware.
  case denied(Hardware)
  /// It has lost the hardware.
  case revoked(Hardware)
  /// It has the lock.
  case lockGranted(SharedResource)
  /// It has lost the lock.
  case lockRevoked(SharedResource)
  /// Something that its developer should know.
  case diagnose(AppDiagnosis)
}

/// The last state of a kind of change. (R-COAL-02)
public struct Change: Sendable, Hashable {
  /// Of what.
  public let kind: String
  /// What it is now.
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
  /// Whether to open the app for a message.
  case message(Message)
  /// Whether to take a call.
  case call(String)
  /// What the app asks.
  case text(String)
}

/// Something that the developer or the user of an app should know.
public enum AppDiagnosis: Sendable, Hashable {
  /// A callback took longer than it may.
  case callbackOverrun(Callback)
  /// A slice went on for too long after the end of the app's time.
  case sliceOverrun
  /// A fetch took longer than it may.
  case fetchOverrun
  /// Its time was up, and the task was not ended.
  case taskNeverEnded(TaskID)
  /// It held a task, and used no CPU.
  case idleTask(TaskID)
  /// It held a lock at suspension.
  case heldLock(SharedResource)
  /// It asked for the GPU in background.
  case gpuInBackground
  /// Its real-time code is of a file that is not approved.
  case unapprovedLibrary(String)
  /// It broke a rule.
  case rule(BestPractice)
  /// A slice of a terminated app does not end.
  case unendingSlice
  /// The pages of a drawing buffer could not be replaced, for a reason of the kernel's: until the next change
  /// what is drawn in background shows, or what is drawn in front does not. (R-GFX-03)
  case drawingPagesStay(String)
}

/// An effect and the app that it is for.
package struct Effect: Sendable, Hashable {
  package let app: AppID
  package let action: AppEffect
}

/// Why an event was refused; nothing was changed by it.
public struct AppsError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What went wrong.
  public enum Code: Sendable, Hashable {
    /// The table does not allow it in the app's state.
    case lifecycle(AppID, LifecycleError)
    /// No such app; so many are registered.
    case unknownApp(AppID, registered: Int)
    /// The time is before that of an earlier event.
    case clockWentBack(from: Moment, to: Moment)
    /// It returned from what it was not asked to run, or not next.
    case unexpectedReturn(AppID, Callback, expected: Callback?)
    /// The app has no such open task.
    case unknownTask(AppID, TaskID)
    /// The question is not open.
    case unknownPrompt(PromptID)
    /// The app executes nothing in its state.
    case notExecuting(AppID, LifecycleState)
    /// The app does not declare this background mode.
    case missingMode(AppID, Manifest.Mode)
    /// The policy allows no shorter interval than the minimum.
    case heartbeatTooShort(AppID, Duration, minimum: Duration)
    /// The app does not hold this.
    case notHeld(AppID, String)
    /// The app plays and records nothing.
    case noAudio(AppID)
    /// Nobody can have used less than no CPU time.
    case negativeTime(AppID, Duration)
    /// Not a date that a calendar has, or not within ``LocalNotification/latest`` of 1970.
    case invalidFireDate(AppID, LocalNotification.FireDate)
    /// Not so many seconds after 1970 as a clock can say.
    case invalidTime(Double)
  }

  /// What went wrong.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// The same for people: what was asked, what stood against it.
  public var message: String {
    switch code {
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
    case .invalidFireDate(let app, let date):
      "\(app): \(date) is no date of the calendar, or too far from 1970"
    case .invalidTime(let value):
      "the wall clock is \(value) s after 1970, expected ±\(LocalNotification.latest) s"
    }
  }

  public var description: String { message }
}
