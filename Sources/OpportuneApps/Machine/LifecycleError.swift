/// The table does not allow an event in a state; nothing was changed.
public struct LifecycleError: Error, Sendable, Hashable {
  /// Why not.
  public enum Reason: String, Sendable, Hashable, CaseIterable {
    /// The app does not run.
    case notRunning
    /// The app is in front.
    case inForeground
    /// The app is not in front.
    case notInForeground
    /// The app executes, or may.
    case executing
    /// A service keeps the app in background.
    case asserted
    /// Multitasking is not supported here, or the app opted out of it.
    case backgroundNotAllowed
    /// Nothing was asked to stop.
    case notStopping
    /// The app is still there.
    case notTerminated
  }

  public let state: LifecycleState
  public let event: LifecycleEvent
  public let reason: Reason

  package init(state: LifecycleState, event: LifecycleEvent, reason: Reason) {
    self.state = state
    self.event = event
    self.reason = reason
  }
}

extension LifecycleError.Reason {
  /// For people.
  public var text: String {
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
  public var description: String { "'\(event)' is not allowed in state '\(state)': \(reason.text)" }
}
