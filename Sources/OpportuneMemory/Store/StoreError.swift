/// Why the hibernation store refused a call, or what it found.
///
/// Two errors are equal when their codes are; the message is for people. More codes may be added later.
public struct StoreError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The kind of error.
  public enum Code: Sendable, Hashable {
    /// An argument was refused; nothing was done.
    case argument
    /// Another store, of this process or another, has locked the file. Or this is a child of `fork()`, and
    /// the parent owns the store.
    case locked
    /// The file has another version of the format, or is not a store.
    case otherVersion
    /// The size of the file differs from the requested size, or from that with which it was made.
    case otherSize
    /// Neither copy of the index is readable: nothing of the store is used.
    case damagedIndex
    /// The app's saved state does not match its checksum. It is not returned; it can only be removed.
    case damagedRecord
    /// There is no room. Nothing has changed; terminate the app instead.
    case full
    /// The memory that was being saved is in use again. Nothing has changed.
    case withdrawn
    /// Nothing is saved under this name.
    case absent
    /// The kernel returned this error; the number is an `errno`.
    case system(Int32)
  }

  /// The kind of error.
  public let code: Code
  /// For people: the value, and the limit or the reason.
  public let message: String

  package init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  public var description: String { message }

  public static func == (left: StoreError, right: StoreError) -> Bool { left.code == right.code }
}
