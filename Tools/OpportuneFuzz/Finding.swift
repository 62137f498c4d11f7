import COpportuneChecked
import COpportuneExplorer

/// A failure, with everything needed to reproduce it.
package struct Finding: Sendable, Equatable, Encodable {
  /// The target's name.
  package let target: String
  /// What is wrong, as the judge says it.
  package let message: String
  /// The program and its schedule: what ``Explorer/replay(_:)`` reads.
  package let example: String
  /// Threads against steps.
  package let timeline: String
}

/// Reads text that a C function writes as `snprintf` does: it says how long the whole is.
func text(_ write: (UnsafeMutablePointer<CChar>?, Int) -> Int) -> String {
  let length = write(nil, 0)
  return withUnsafeTemporaryAllocation(of: CChar.self, capacity: length + 1) { buffer in
    _ = write(buffer.baseAddress, length + 1)
    return buffer.baseAddress.map { String(cString: $0) } ?? ""
  }
}
