internal import OpportuneApps

/// An app inside of a program that has joined, as the program tells of it.
struct InnerApp: Hashable {
  /// The most of a program.
  static let most = 64
  /// What waits for its program's answer.
  static let mostQuestions = 8

  let name: String
  let state: LifecycleState.Operational

  /// What can be asked of it.
  enum Request: Hashable {
    case bringForward, suspend, terminate

    /// As the program is asked.
    var question: String {
      switch self {
      case .bringForward: "bringAppForward"
      case .suspend: "suspendApp"
      case .terminate: "terminateApp"
      }
    }

    /// What was not done, for people.
    var done: String {
      switch self {
      case .bringForward: "brought to the front"
      case .suspend: "suspended"
      case .terminate: "terminated"
      }
    }
  }
}
