/// What an app declares about itself. (R-MAN-01 to -06)
///
/// Read from an `Info.plist` or JSON by ``ManifestReader``, or made in code. Settings of the user override it
/// (``UserSettings``).
public struct Manifest: Sendable, Hashable {
  /// Why an app may run in background without a task. (R-MAN-01, R-MAN-02)
  public enum Mode: String, Sendable, Hashable, CaseIterable, Codable {
    /// It plays or records.
    case audio
    /// It follows the device.
    case location
    /// It is woken by data and heartbeats.
    case voip
    /// It fetches now and then.
    case fetch
  }

  /// For people and to identify it.
  public var identifier: String
  /// Off by default. (R-MAN-05)
  public var backgroundModes: Set<Mode>
  /// It does not run in background at all: leaving the foreground ends it. (R-MAN-04)
  public var exitsOnSuspend: Bool
  /// It says that it may be suspended; needed where the policy asks for that. (R-FTS-05)
  public var allowsSuspension: Bool
  /// It finishes tasks in background, where the policy asks for a declaration. (R-TASK-09)
  public var completesTasks: Bool
  /// How much longer its tasks may run; `nil` is the policy's. (R-TASK-04)
  public var taskTime: Duration?
  /// What it tells the user when it asks for its location; by key, as `NSLocationWhenInUseUsageDescription`.
  public var usageDescriptions: [String: String]

  /// Multitasking is on, every mode is off.
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

  /// The manifest with what the user chose at install, at first run or later. (R-MAN-06)
  package func applying(_ settings: UserSettings) -> Manifest {
    var result = self
    result.backgroundModes.formUnion(settings.allowedModes)
    result.backgroundModes.subtract(settings.deniedModes)
    if let exits = settings.exitsOnSuspend { result.exitsOnSuspend = exits }
    if let completes = settings.completesTasks { result.completesTasks = completes }
    return result
  }
}

/// What the user chose for an app; stronger than its manifest.
public struct UserSettings: Sendable, Hashable {
  /// Given although the manifest does not ask.
  public var allowedModes: Set<Manifest.Mode> = []
  /// Taken although the manifest asks.
  public var deniedModes: Set<Manifest.Mode> = []
  /// In place of the manifest's; `nil`: as it says.
  public var exitsOnSuspend: Bool?
  /// In place of the manifest's; `nil`: as it says.
  public var completesTasks: Bool?

  /// Nothing was chosen.
  public init() {}
}
