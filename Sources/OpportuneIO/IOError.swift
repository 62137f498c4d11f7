import SystemPackage

/// Why a request was refused, or did not end as asked.
///
/// Two errors are equal when their codes are; the message is for people. More codes may be added later.
public struct IOError: Error, Sendable, Equatable {
  /// What went wrong.
  public enum Code: Sendable, Hashable {
    /// A setting or an argument was refused; nothing was begun.
    case configuration
    /// The kernel answered so.
    case system(Errno)
    /// The task was cancelled, and the kernel has let go of the request.
    case cancelled
    /// The deadline passed. The kernel may still be at it; the buffer stays with the request until it is not.
    case deadlineExceeded
    /// The app was terminated.
    case terminated
    /// The buffer is in use by another request.
    case bufferInUse
    /// The other side closed, or the file ended, before all was there.
    case endOfStream
    /// The broker was shut down, or could not be started.
    case unavailable
    /// This is the child of a `fork()`; the broker's thread is in the parent.
    case forked
  }

  /// What went wrong.
  public let code: Code
  /// The same for people: what was asked, what stood against it.
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
