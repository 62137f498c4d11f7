/// The result of running an example again.
package struct ExampleRun: Sendable, Equatable, Encodable {
  /// The failure, if it fails.
  package let finding: Finding?
  /// Threads against steps, or an input's steps, whether it fails or not.
  package let timeline: String
  /// What of the schedule that was kept cannot be done any more, since the code is no longer what it was. The
  /// execution is another one then, and that it does not fail says nothing.
  package let misfit: String?
}
