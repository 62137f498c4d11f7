import Glibc
internal import OpportuneBase

/// Why a request for memory, or a setting, was refused.
///
/// Two errors are equal when their codes are; the message is for people. More codes may be added later.
public struct MemoryError: Error, Sendable, Equatable {
  /// The kind of error.
  public enum Code: Sendable, Hashable {
    /// A setting or an argument was refused; nothing was done.
    case configuration
    /// The kernel returned this error; the number is an `errno`.
    case system(Int32)
  }

  /// The kind of error.
  public let code: Code
  /// For people: the value, and the limit or the reason.
  public let message: String

  init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  /// The error for a value out of range.
  static func range(_ setting: String, _ value: some CustomStringConvertible, _ limit: String) -> MemoryError
  {
    MemoryError(.configuration, "\(setting) is \(value), expected \(limit)")
  }

  /// The error for a refusal by the kernel.
  static func refused(_ what: String, _ number: Int32) -> MemoryError {
    MemoryError(.system(number), "\(what): \(errorText(number))")
  }

  /// Checks that `bytes` is a possible size, before room is made for it.
  static func check(_ what: String, bytes: Int) throws(MemoryError) {
    guard bytes > 0, bytes <= 1 << 46 else { throw .range(what, "\(bytes) bytes", "1 to 2^46") }
  }

  public static func == (left: MemoryError, right: MemoryError) -> Bool { left.code == right.code }
}

extension MemoryError: CustomStringConvertible {
  public var description: String { message }
}
