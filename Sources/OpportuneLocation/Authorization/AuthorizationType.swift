import OpportuneApps
internal import OpportuneBase

/// What a user can allow an app. Two types are defined here; others can be made of the same parts.
/// (R-AUTH-01)
public struct AuthorizationType: Sendable, Hashable {
  /// For people, as "when in use".
  public var name: String
  /// The manifest's key with what the app tells the user. (R-AUTH-05)
  public var usageKey: String
  /// The system's part of the dialog; `%@` is the app. (R-AUTH-07)
  public var dialog: String
  /// What the app gets while it is in use, and while it is not.
  public var whenInUse: Set<LocationService>
  /// What an app may have while it is not in use.
  public var whenNotInUse: Set<LocationService>

  /// A type of a policy's own.
  public init(
    name: String, usageKey: String, dialog: String, whenInUse: Set<LocationService>,
    whenNotInUse: Set<LocationService>
  ) {
    self.name = name
    self.usageKey = usageKey
    self.dialog = dialog
    self.whenInUse = whenInUse
    self.whenNotInUse = whenNotInUse
  }

  /// (R-AUTH-02)
  public static let whenInUse = AuthorizationType(
    name: "when in use", usageKey: "NSLocationWhenInUseUsageDescription",
    dialog: "Allow \"%@\" to access your location while you use it?",
    whenInUse: Set(LocationService.allCases),
    whenNotInUse: [])
  /// (R-AUTH-04)
  public static let always = AuthorizationType(
    name: "always", usageKey: "NSLocationAlwaysUsageDescription",
    dialog: "Allow \"%@\" to access your location even when you are not using it?",
    whenInUse: Set(LocationService.allCases), whenNotInUse: Set(LocationService.allCases))
}

/// What the user said of an app.
public enum AuthorizationStatus: Sendable, Hashable {
  /// Nothing yet, or no answer came.
  case notDetermined
  /// The user does not allow it.
  case denied
  /// The user allows this much.
  case allowed(AuthorizationType)
}

/// Why an app counts as in use. (R-AUTH-03)
public enum InUseFactor: String, Sendable, Hashable, CaseIterable, Codable {
  /// It is in front.
  case visible
  /// It was invoked by voice.
  case voice
  /// It is of a class that is in use while it runs.
  case appClass
  /// It tracks since it was in use, and a banner says so. (R-AUTH-23)
  case quickReturn
}

/// What kind of app it is, as far as being in use goes.
public enum AppClass: String, Sendable, Hashable, CaseIterable, Codable {
  /// Any other.
  case ordinary
  /// It follows a workout.
  case exercise
  /// It shows the way.
  case navigation
}

/// When the application manager asks whether an app may still know of a crossing, apart from the moment of
/// delivery.
public enum SecondCheck: String, Sendable, Hashable, CaseIterable, Codable {
  /// Form A: before it alerts the user. (R-AUTH-15)
  case beforeAlert
  /// Form B: after the user chose to open. (R-AUTH-16)
  case afterOpen
  /// Form C. (R-AUTH-17)
  case both

  var isBefore: Bool { self != .afterOpen }
  var isAfter: Bool { self != .beforeAlert }
}

/// Settings of a ``LocationSystem``.
public struct LocationPolicy: Sendable, Hashable {
  /// How crossings are decided.
  public var monitor = MonitorPolicy.standard
  /// When the next fix is asked for.
  public var sampling = SamplingPolicy.standard
  /// Which source serves which demand.
  public var sources = SourceTable.standard
  /// Asked for where an app names no type. (R-AUTH-01)
  public var defaultType = AuthorizationType.whenInUse
  /// (R-AUTH-03)
  public var inUseFactors = Set(InUseFactor.allCases)
  /// Classes that are in use while they run.
  public var inUseClasses: Set<AppClass> = [.exercise]
  /// The user is asked once for each type and installation; else at each request that is not allowed.
  /// (R-AUTH-08)
  public var asksOnce = true
  /// An open dialog is taken away after this, and is no answer; `nil`: it stays. By default 2 minutes.
  public var dialogTime: Duration? = .seconds(120)
  /// When an app was first given a location out of use, the user is reminded so much later; `nil`: never. By
  /// default 3 days. (R-AUTH-09)
  public var reminder: Duration? = .seconds(3 * 86_400)
  /// When it is asked again whether an app may know of a crossing.
  public var secondCheck = SecondCheck.both
  /// The manager asks and goes on with other work meanwhile, instead of waiting. (R-AUTH-18)
  public var asksAsynchronously = false
  /// The user is alerted of every crossing; else only where the app may not be told without. (R-AUTH-13,
  /// R-AUTH-19)
  public var alertsAlways = false
  /// Fences are for apps whose manifest has the location mode; else for all. (R-GEO-04)
  public var fencesNeedMode = false
  /// Metres that make a change significant where neither user nor app says so: 1 to 10^7, by default 500.
  /// (R-LOC-02)
  public var significantDistance = 500.0
  /// Apps that want each fix get outliers as well, which no device can have done: for those who judge for
  /// themselves. Off by default. Neither fences nor significant changes go by them either way. (R-LOC-09)
  public var deliversOutliers = false
  /// The sources that are there at first. (R-LOC-08)
  public var available = Set<SourceKind>([.satellite, .wifi, .cell])

  /// Modes that the device's place chooses; where regions overlap the first. None by default. (R-SYS-05)
  public var modes: [OperatingMode] = []

  /// The defaults.
  public static let standard = LocationPolicy()

  /// The default of each setting.
  public init() {}

  func validate() throws(LocationError) {
    try monitor.validate()
    try sampling.validate()
    try sources.validate()
    try check(significantDistance, "significant distance in metres", within: 1...1e7)
    for mode in modes { try mode.validate() }
    if let dialogTime { try check(dialogTime.inSeconds, "dialog time in seconds", within: 1...86_400) }
    if let reminder { try check(reminder.inSeconds, "reminder in seconds", within: 0...3.2e7) }
  }
}
