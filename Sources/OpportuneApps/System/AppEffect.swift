/// An effect: what the system requests from its host, or reports to it.
public enum AppEffect: Sendable, Hashable {
  /// A step of the lifecycle, which the host carries out.
  case lifecycle(LifecycleEffect)
  /// The app was launched, with this reason in its launch options.
  case launched(LaunchReason)
  /// The app has changed state.
  case moved(from: LifecycleState, to: LifecycleState, by: LifecycleEvent)
  /// An event had no effect; the reason.
  case ignored(LifecycleEvent, String)
  /// The app's restrictions from now on.
  case restrict(Restrictions)

  /// The app got time for a task.
  case taskBegan(TaskID)
  /// The app got no time; the reason.
  case taskRefused(TaskRefusal)
  /// Run the expiration handler.
  case expire(TaskID)
  /// The task has ended.
  case taskEnded(TaskID)

  /// Its audio pauses.
  case pauseAudio
  /// Its audio may continue.
  case resumeAudio

  /// Deliver a message to the app.
  case deliver(Message)
  /// Changes, one for each kind, in the order of their names. (R-COAL-01)
  case coalesced([Change])
  /// Show the notification to the user.
  case notify(LocalNotification)
  /// Ask the user; the answer comes back as ``SystemEvent/answer(_:accepted:)``.
  case ask(PromptID, Prompt)
  /// Data has arrived for the app.
  case data(bytes: Int)
  /// Its heartbeat is due.
  case heartbeat
  /// It may fetch.
  case fetch
  /// A location or a crossing of a fence has arrived for the app.
  case locationEvent
  /// A completion of the kernel has arrived for the app.
  case completion

  /// The app has the hardware.
  case granted(Hardware)
  /// The app does not get the hardware.
  case denied(Hardware)
  /// The app has lost the hardware.
  case revoked(Hardware)
  /// The app has the lock.
  case lockGranted(SharedResource)
  /// The app has lost the lock.
  case lockRevoked(SharedResource)
  /// A diagnosis for the app's developer.
  case diagnose(AppDiagnosis)
}

/// The latest state of one kind of change. (R-COAL-02)
public struct Change: Sendable, Hashable {
  /// What has changed.
  public let kind: String
  /// Its current value.
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
  /// The background time is over.
  case timeIsUp
  /// The app has too many open tasks.
  case tooMany
}

/// A question to the user.
public enum Prompt: Sendable, Hashable {
  /// Whether to open the app for a message.
  case message(Message)
  /// Whether to take a call.
  case call(String)
  /// What the app asks.
  case text(String)
}

/// A fact about an app for its developer or user.
public enum AppDiagnosis: Sendable, Hashable {
  /// A callback took longer than it may.
  case callbackOverrun(Callback)
  /// A slice ran too long after the end of the app's time.
  case sliceOverrun
  /// A fetch took longer than it may.
  case fetchOverrun
  /// The time was up, and the app did not end the task.
  case taskNeverEnded(TaskID)
  /// The app held a task without using CPU time.
  case idleTask(TaskID)
  /// It held a lock at suspension.
  case heldLock(SharedResource)
  /// It asked for the GPU in background.
  case gpuInBackground
  /// Its real-time code comes from a file that is not approved.
  case unapprovedLibrary(String)
  /// The app broke a best-practice rule.
  case rule(BestPractice)
  /// A slice of a terminated app does not end.
  case unendingSlice
  /// The kernel could not replace the pages of a drawing buffer; the reason. Until the next change, drawing
  /// in the background is visible, or drawing in the foreground is not. (R-GFX-03)
  case drawingPagesStay(String)
}

/// An effect and its app.
package struct Effect: Sendable, Hashable {
  package let app: AppID
  package let action: AppEffect
}

/// Why an event was refused; nothing was changed by it.
public struct AppsError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of error.
  public enum Code: Sendable, Hashable {
    /// The lifecycle table does not allow the event in the app's state.
    case lifecycle(AppID, LifecycleError)
    /// There is no such app; the number of registered apps.
    case unknownApp(AppID, registered: Int)
    /// The time lies before that of an earlier event.
    case clockWentBack(from: Moment, to: Moment)
    /// The app returned from a callback that it was not running.
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
    /// The app does not hold this resource.
    case notHeld(AppID, String)
    /// The app plays and records nothing.
    case noAudio(AppID)
    /// The CPU time is negative.
    case negativeTime(AppID, Duration)
    /// The date does not exist in the calendar, or is not within ``LocalNotification/latest`` of 1970.
    case invalidFireDate(AppID, LocalNotification.FireDate)
    /// The number of seconds since 1970 is outside of a clock's range.
    case invalidTime(Double)
  }

  /// The kind of error.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// For people: what was asked, and what prevented it.
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
