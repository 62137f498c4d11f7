import SystemPackage

/// Why a request was refused, or did not end as asked.
///
/// Two errors are equal when their codes are; the message is for people. More codes may be added later.
public struct IOError: Error, Sendable, Equatable {
  /// The kind of error.
  public enum Code: Sendable, Hashable {
    /// A setting or an argument was refused; nothing was started.
    case configuration
    /// The kernel returned this error.
    case system(Errno)
    /// The task was cancelled, and the kernel has ended the request.
    case cancelled
    /// The deadline passed. The kernel may still work on the request; the request keeps its buffer until the
    /// kernel has ended it.
    case deadlineExceeded
    /// The I/O of the app has ended: with the app, or by a shutdown of the broker while the request was under
    /// way.
    case terminated
    /// The buffer is in use by another request.
    case bufferInUse
    /// The peer closed, or the file ended, before all bytes were transferred.
    case endOfStream
    /// A line has more bytes than was allowed.
    case lineTooLong
    /// The name of a host has no address, or it could not be looked up.
    case hostNotResolved
    /// The broker was shut down, or could not be started.
    case unavailable
  }

  /// The kind of error.
  public let code: Code
  /// For people: what was asked, and what prevented it.
  public let message: String

  init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  public static func == (lhs: IOError, rhs: IOError) -> Bool { lhs.code == rhs.code }
}

extension IOError: CustomStringConvertible {
  public var description: String { "\(code): \(message)" }
}
