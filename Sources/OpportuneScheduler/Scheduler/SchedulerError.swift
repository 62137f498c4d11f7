/// Why a call on a scheduler was refused or could not be completed.
///
/// Two errors are equal when their codes are; the message is for people. More codes may be added later.
public struct SchedulerError: Error, Sendable, Equatable {
  /// The kind of error.
  public struct Code: Sendable, Hashable, CustomStringConvertible {
    private enum Reason: String {
      case configuration, shutDown, threadEnding, outOfMemory, tooManyApps, threadsUnavailable
      case poolDisabled, jobsStillRunning
    }

    private let reason: Reason
    private init(_ reason: Reason) { self.reason = reason }

    /// A setting was refused; the message is that of the ``ConfigurationError``.
    public static let configuration = Code(.configuration)
    /// The scheduler is shutting down or has been shut down.
    public static let shutDown = Code(.shutDown)
    /// The calling thread is ending and has no thread-local storage any more.
    public static let threadEnding = Code(.threadEnding)
    /// Memory is short. Nothing was queued.
    public static let outOfMemory = Code(.outOfMemory)
    /// The scheduler already has ``SchedulerConfiguration/maximumApps`` apps.
    public static let tooManyApps = Code(.tooManyApps)
    /// The kernel gave no thread, timer or descriptor.
    public static let threadsUnavailable = Code(.threadsUnavailable)
    /// The band belongs to a pool that the configuration leaves out.
    public static let poolDisabled = Code(.poolDisabled)
    /// The shutdown's deadline passed, and some jobs are still running.
    public static let jobsStillRunning = Code(.jobsStillRunning)

    public var description: String { reason.rawValue }
  }

  /// The kind of error.
  public let code: Code
  /// For people: what was asked, what prevented it, and what to do.
  public let message: String

  init(_ code: Code, _ message: String) {
    self.code = code
    self.message = message
  }

  public static func == (lhs: SchedulerError, rhs: SchedulerError) -> Bool { lhs.code == rhs.code }
}

extension SchedulerError: CustomStringConvertible {
  public var description: String { "\(code): \(message)" }
}
