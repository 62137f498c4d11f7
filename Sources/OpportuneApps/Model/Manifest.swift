/// What an app declares about itself. (R-MAN-01 to -06)
///
/// Read from an `Info.plist` or JSON by ``ManifestReader``, or made in code. The user's settings override it
/// (``UserSettings``).
public struct Manifest: Sendable, Hashable {
  /// Why an app may run in background without a task. (R-MAN-01, R-MAN-02)
  public enum Mode: String, Sendable, Hashable, CaseIterable, Codable {
    /// It plays or records.
    case audio
    /// It tracks the device's location.
    case location
    /// It is woken by data and heartbeats.
    case voip
    /// It fetches data periodically.
    case fetch
  }

  /// Identifies the app; also for people.
  public var identifier: String
  /// The background modes; none by default. (R-MAN-05)
  public var backgroundModes: Set<Mode>
  /// Whether leaving the foreground terminates the app, so that it never runs in the background. (R-MAN-04)
  public var exitsOnSuspend: Bool
  /// Whether the app declares that it may be suspended; used where the policy asks for that. (R-FTS-05)
  public var allowsSuspension: Bool
  /// Whether the app declares that it completes tasks in the background; used where the policy asks for that.
  /// (R-TASK-09)
  public var completesTasks: Bool
  /// The time limit of its tasks; `nil` is the policy's. (R-TASK-04)
  public var taskTime: Duration?
  /// The texts shown to the user when the app asks for its location, by key, such as
  /// `NSLocationWhenInUseUsageDescription`.
  public var usageDescriptions: [String: String]

  /// Makes a manifest; by default multitasking is on and every mode is off.
  public init(
    identifier: String, backgroundModes: Set<Mode> = [], exitsOnSuspend: Bool = false,
    allowsSuspension: Bool = false, completesTasks: Bool = false, taskTime: Duration? = nil,
    usageDescriptions: [String: String] = [:]
  ) {
    self.identifier = identifier
    self.backgroundModes = backgroundModes
    self.exitsOnSuspend = exitsOnSuspend
    self.allowsSuspension = allowsSuspension
    self.completesTasks = completesTasks
    self.taskTime = taskTime
    self.usageDescriptions = usageDescriptions
  }

  /// The manifest with the user's settings applied, from install, first run or later. (R-MAN-06)
  package func applying(_ settings: UserSettings) -> Manifest {
    var result = self
    result.backgroundModes.formUnion(settings.allowedModes)
    result.backgroundModes.subtract(settings.deniedModes)
    if let exits = settings.exitsOnSuspend { result.exitsOnSuspend = exits }
    if let completes = settings.completesTasks { result.completesTasks = completes }
    return result
  }
}

/// The user's settings for an app; they override its manifest.
public struct UserSettings: Sendable, Hashable {
  /// Modes that are granted although the manifest does not declare them.
  public var allowedModes: Set<Manifest.Mode> = []
  /// Modes that are denied although the manifest declares them.
  public var deniedModes: Set<Manifest.Mode> = []
  /// Whether leaving the foreground terminates the app; `nil` leaves that to the manifest.
  public var exitsOnSuspend: Bool?
  /// Whether the app completes tasks in the background; `nil` leaves that to the manifest.
  public var completesTasks: Bool?

  /// Makes settings that override nothing.
  public init() {}
}
