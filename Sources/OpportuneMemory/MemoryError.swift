import Glibc

/// Why memory was refused, or a setting.
///
/// Two errors are equal when their codes are; the message is for people. More codes may be added later.
public struct MemoryError: Error, Sendable, Equatable {
  /// What went wrong.
  public enum Code: Sendable, Hashable {
    /// A setting or an argument was refused; nothing was done.
    case configuration
    /// The kernel answered so; the number is an `errno`.
    case system(Int32)
  }

  /// What went wrong.
  public let code: Code
  /// The same for people: the value, and the limit or the reason.
  public let message: String

  init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  /// A value out of its range.
  static func range(_ setting: String, _ value: some CustomStringConvertible, _ limit: String) -> MemoryError
  {
    MemoryError(.configuration, "\(setting) is \(value), expected \(limit)")
  }

  /// What the kernel refused, and why.
  static func refused(_ what: String, _ number: Int32) -> MemoryError {
    MemoryError(.system(number), "\(what): \(String(cString: strerror(number)))")
  }

  /// Whether `bytes` is a size that can be asked for; room is made only for those.
  static func check(_ what: String, bytes: Int) throws(MemoryError) {
    guard bytes > 0, bytes <= 1 << 46 else { throw .range(what, "\(bytes) bytes", "1 to 2^46") }
  }

  public static func == (left: MemoryError, right: MemoryError) -> Bool { left.code == right.code }
}

extension MemoryError: CustomStringConvertible {
  public var description: String { message }
}
