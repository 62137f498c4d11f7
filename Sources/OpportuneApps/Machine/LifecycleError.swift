/// The table does not allow an event in a state; nothing was changed.
public struct LifecycleError: Error, Sendable, Hashable {
  /// Why the event is refused.
  public enum Code: String, Sendable, Hashable, CaseIterable {
    /// The app does not run.
    case notRunning
    /// The app is in the foreground.
    case inForeground
    /// The app is not in the foreground.
    case notInForeground
    /// The app executes, or may.
    case executing
    /// A service keeps the app in the background.
    case asserted
    /// Multitasking is not supported here, or the app opted out of it.
    case backgroundNotAllowed
    /// The app was not asked to stop.
    case notStopping
    /// The app has not been terminated yet.
    case notTerminated
  }

  /// The state that the app had and keeps.
  public let state: LifecycleState
  /// The refused event.
  public let event: LifecycleEvent
  /// The reason.
  public let code: Code

  package init(state: LifecycleState, event: LifecycleEvent, _ code: Code) {
    self.state = state
    self.event = event
    self.code = code
  }
}

extension LifecycleError.Code {
  /// For people.
  package var text: String {
    switch self {
    case .notRunning: "it does not run"
    case .inForeground: "it is in the foreground"
    case .notInForeground: "it is not in the foreground"
    case .executing: "it executes, or may: suspend it first"
    case .asserted: "a service keeps it in background"
    case .backgroundNotAllowed: "multitasking is not supported here, or the app opted out of it"
    case .notStopping: "it was not asked to stop"
    case .notTerminated: "it was not terminated"
    }
  }
}

extension LifecycleError: CustomStringConvertible {
  /// For people: the event, the state and the reason.
  public var message: String { "'\(event)' is not allowed in state '\(state)': \(code.text)" }

  public var description: String { message }
}
