/// Why the hibernation store refused, or what it found.
///
/// Two errors are equal when their codes are; the message is for people. More codes may be added later.
public struct StoreError: Error, Sendable, Equatable, CustomStringConvertible {
  /// What went wrong.
  public enum Code: Sendable, Hashable {
    /// An argument was refused; nothing was done.
    case argument
    /// Another store, of this process or another, has the file; or this is a child of `fork()`, and its
    /// parent has it.
    case locked
    /// The file is of another version of the format, or no store at all.
    case otherVersion
    /// The file is not as large as the store is to be, or as it was made.
    case otherSize
    /// Neither copy of the index can be read: nothing of the store is used.
    case damagedIndex
    /// What was saved of this app is not what was written. It is not handed out; it can only be removed.
    case damagedRecord
    /// There is no room. Nothing has changed; terminate the app instead.
    case full
    /// What was being saved is in use again. Nothing has changed.
    case withdrawn
    /// Nothing is saved under this name.
    case absent
    /// The kernel answered so; the number is an `errno`.
    case system(Int32)
  }

  /// What went wrong.
  public let code: Code
  /// The same for people: the value, and the limit or the reason.
  public let message: String

  package init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  public var description: String { message }

  public static func == (left: StoreError, right: StoreError) -> Bool { left.code == right.code }
}
