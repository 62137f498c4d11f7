/// What an example came to when it was run again.
public struct Replay: Sendable, Equatable {
  /// The failure, if it fails.
  public let finding: Finding?
  /// Threads against steps, or an input's steps, whether it fails or not.
  public let timeline: String
  /// What of the schedule that was kept cannot be done any more, since the code is no longer what it was. The execution is
  /// another one then, and that it does not fail says nothing.
  public let misfit: String?
}
