import Glibc

/// Why the search engine of `opportune bench serve` could not do something. Equal when codes are.
struct EngineError: Error, Equatable, CustomStringConvertible, Sendable {
  enum Code: Sendable, Hashable {
    /// A file that is no segment, or of another version.
    case notASegment
    /// A file that is shorter than it says, or whose header was never written.
    case torn
    /// Bytes that are not what their checksum says, or values that cannot be.
    case corrupt
    /// A message of a client that cannot be read.
    case malformed
    /// A pattern that is no regular expression.
    case pattern
    /// What the kernel says.
    case system(Int32)
  }

  let code: Code
  let description: String

  init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }

  /// A system call failed.
  static func failed(_ what: String, _ number: Int32 = errno) -> EngineError {
    EngineError(.system(number), "\(what): \(String(cString: strerror(number)))")
  }

  static func == (left: EngineError, right: EngineError) -> Bool { left.code == right.code }
}

/// Whether somebody waits for the work.
enum Side: Sendable, Hashable, CaseIterable {
  case foreground, background
}
