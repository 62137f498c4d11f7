internal import Glibc
public import OpportuneApps
internal import OpportuneBase

/// Why a program could not join the host, or was not given time.
public struct HostConnectionError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of error.
  public enum Code: Sendable, Hashable {
    /// No path was given, and none follows from the environment: `XDG_RUNTIME_DIR` is not set.
    case noPath
    /// Nothing answers at the path as a host does; the number of the error.
    case noHost(String, Int32)
    /// The host did not answer within this time.
    case timedOut(Duration)
    /// The host does not take this program; its reason. As a rule the program is no app of it.
    case refused(String)
    /// The host grants no time; its reason.
    case taskRefused(String)
    /// The host does not keep a socket alive; its reason.
    case keepAliveRefused(String)
    /// The host asks for no heartbeat, as of an interval below its least; its reason.
    case heartbeatRefused(String)
    /// The interval of a heartbeat: expected more than 0 and at most 146 years.
    case heartbeatInterval(Duration)
    /// The host schedules no notification; its reason.
    case notificationRefused(String)
    /// The date of a notification: none of the calendar, or beyond `LocalNotification.latest`.
    case fireDate(LocalNotification.FireDate)
    /// The texts of a notification of this name do not fit into a line of 4,096 bytes, or have null
    /// characters.
    case notificationLength(String)
    /// The name of a task: expected up to 100 characters.
    case taskName(String)
    /// The host has gone, has left this program, or was left; why.
    case left(String)
    /// The system refused; the number of the error.
    case system(Int32)
  }

  /// The kind of error.
  public let code: Code

  init(_ code: Code) { self.code = code }

  /// For people: the value, and what prevented it.
  public var message: String {
    switch code {
    case .noPath: "the host's socket is not known: XDG_RUNTIME_DIR is not set"
    case .noHost(let path, let number): "no host answers at '\(path)': \(Self.text(number))"
    case .timedOut(let limit): "the host did not answer within \(limit)"
    case .refused(let reason): "the host refuses: \(reason)"
    case .taskRefused(let reason): "the host grants no time: \(reason)"
    case .keepAliveRefused(let reason): "the host keeps no socket alive: \(reason)"
    case .heartbeatRefused(let reason): "the host asks for no heartbeat: \(reason)"
    case .heartbeatInterval(let interval):
      "the interval of the heartbeat is \(interval): expected a millisecond or more, and at most 146 years"
    case .notificationRefused(let reason): "the host schedules no notification: \(reason)"
    case .fireDate(let date):
      "the date of the notification is \(date): expected one of the calendar, within "
        + "\(Int64(LocalNotification.latest)) s of 1970"
    case .notificationLength(let name):
      "the texts of the notification '\(name.printable)' are too long: expected a line of at most 4096 bytes"
    case .taskName(let name): "the task's name has \(name.count) characters: expected at most 100"
    case .left(let reason): "there is no connection to the host: \(reason)"
    case .system(let number): Self.text(number)
    }
  }

  public var description: String { message }

  private static func text(_ number: Int32) -> String { String(cString: strerror(number)) }
}
