import Glibc
import Testing

/// Called in a separate process: reports failed expectations to the test that started it, and ends it.
func require(
  _ holds: Bool, _ what: @autoclosure () -> String, sourceLocation: SourceLocation = #_sourceLocation
) {
  guard !holds else { return }
  Issue.record("does not hold: \(what())", sourceLocation: sourceLocation)
  _exit(1)
}
