/// Every setting of the lifecycle and its services, with the default of each.
///
/// Where the sources that the requirements come from disagree, the alternative is a setting here.
public struct AppsPolicy: Sendable, Hashable {
  // MARK: Lifecycle

  /// Where it is not, leaving the foreground terminates. (R-LIFE-21)
  public var supportsMultitasking = true
  /// One by default; more: one is active, the others are in front and inactive. (R-LIFE-04, R-LIFE-05)
  public var maximumForeground = 1
  /// How long a callback may take.
  public var callbackLimit: Duration = .seconds(5)
  /// What comes of a callback other than `didEnterBackground` that takes longer; that one always terminates.
  /// (R-FTS-03)
  public var callbackOverrun: Overrun = .report
  /// An event may launch an app that does not run. (R-MSG-04)
  public var eventsLaunchApps = true
  /// How long an app that was reanimated may handle what it was woken for, if no other service applies.
  public var eventTime: Duration = .seconds(10)

  /// What comes of taking too long.
  public enum Overrun: Sendable, Hashable, CaseIterable {
    /// It is told, and nothing else.
    case report
    /// The app ends.
    case terminate
  }

  // MARK: Fast task switching

  /// Whether apps are suspended.
  public var switching: Switching = .all
  /// From leaving the foreground to suspension. (R-FTS-02)
  public var grace: Duration = .seconds(5)
  /// Suspended as soon as `didEnterBackground` has returned, rather than at the end of the grace.
  public var suspendsOnReturn = false
  /// How long a slice that runs may go on after the end of its app's time, before that is an overrun.
  /// (R-FTS-03)
  public var sliceAllowance: Duration = .seconds(1)
  /// What comes of a slice that goes on for longer.
  public var sliceOverrun: Overrun = .terminate
  /// A finished kernel effort of a suspended app reanimates it. (R-FTS-08)
  public var completionsReanimate = false

  /// Who is suspended when nothing keeps it in background.
  public enum Switching: Sendable, Hashable, CaseIterable {
    /// Every app. (R-FTS-04)
    case all
    /// Those that say so. (R-FTS-05)
    case optIn
    /// None: the service is off.
    case off
  }

  // MARK: Services

  /// Task completion.
  public var tasks = TaskPolicy()
  /// Audio.
  public var audio = AudioPolicy()
  /// Messages and local notifications.
  public var messages = MessagePolicy()
  /// Network keep-alive.
  public var network = NetworkPolicy()
  /// The fetch mode.
  public var fetch = FetchPolicy()
  /// External power.
  public var power = PowerPolicy()
  /// What states take from an app.
  public var restrictions = RestrictionPolicy()

  /// The default of each setting.
  public init() {}

  /// The defaults.
  public static let standard = AppsPolicy()
}

/// Task completion. (R-TASK)
public struct TaskPolicy: Sendable, Hashable {
  /// Whether apps get time for tasks.
  public var isOn = true
  /// 3 minutes; 5, 10 and 30 are customary too. `nil`: no limit. (R-TASK-04)
  public var wallClock: Duration? = .seconds(180)
  /// CPU time of the app since it left the foreground; from 5 ms. (R-TASK-05)
  public var cpuTime: Duration?
  /// Loss of external power ends all tasks.
  public var endsOnPowerLoss = false
  /// A further display that goes on ends all tasks. (R-TASK-03)
  public var endsOnDisplay = false
  /// How long the expiration handler may take to end the task. (R-TASK-13)
  public var handlerTime: Duration = .seconds(5)
  /// What comes of a task that is never ended. (R-TASK-14)
  public var unfinished: End = .terminate
  /// What comes after the last task has been ended. (R-TASK-08)
  public var finished: End = .suspend
  /// Only apps whose manifest or settings say so get time. (R-TASK-09)
  public var needsDeclaration = false
  /// Kinds of work that get time without a task. (R-TASK-11)
  public var eligible: Set<TaskKind> = []
  /// Tasks of one app at a time.
  public var maximum = 1000
  /// An app that holds a task and uses no CPU for so long loses it. (R-TASK-17)
  public var idleLimit: Duration?

  /// Where an app goes.
  public enum End: Sendable, Hashable, CaseIterable {
    /// It is suspended.
    case suspend
    /// It ends.
    case terminate
  }

  /// The default of each setting.
  public init() {}
}

/// What a task is, for those that are eligible by what they are. (R-TASK-02)
public enum TaskKind: String, Sendable, Hashable, CaseIterable, Codable {
  /// Something is sent.
  case upload
  /// Something is fetched.
  case download
  /// Something is written.
  case storage
  /// An image is worked on.
  case image
  /// None of these.
  case other
}

/// Audio. (R-AUD)
public struct AudioPolicy: Sendable, Hashable {
  /// Whether audio keeps apps in background.
  public var isOn = true
  /// Apps with real-time audio in background at a time. (R-AUD-03, R-AUD-04)
  public var maximum = 1
  /// Who gives way when one too many plays in background.
  public var gives: Gives = .older
  /// Where a paused app goes. (R-AUD-05, R-AUD-06)
  public var pause: Pause = .suspend
  /// Real-time code in background may only come from these files, as the dynamic linker names them. `nil`:
  /// from any. (R-AUD-07)
  public var approvedLibraries: Set<String>?
  /// Any app that plays or records, not only those that declare it. (R-AUD-08)
  public var needsDeclaration = true

  /// Who gives way.
  public enum Gives: Sendable, Hashable, CaseIterable {
    /// Who played first.
    case older
    /// Who played last.
    case newer
  }
  /// Where a paused app goes.
  public enum Pause: Sendable, Hashable, CaseIterable {
    /// It is suspended.
    case suspend
    /// It goes to the store.
    case hibernate
  }

  /// The default of each setting.
  public init() {}
}

/// Messages and local notifications. (R-MSG)
public struct MessagePolicy: Sendable, Hashable {
  /// Whether messages reach apps that are not in front.
  public var isOn = true
  /// How they do.
  public var delivery: Delivery = .reanimate

  /// How a message reaches an app that is not in front.
  public enum Delivery: Sendable, Hashable {
    /// Reanimate it into background. (R-MSG-03)
    case reanimate
    /// Ask the user, who brings it to the foreground or does not. (R-MSG-05)
    case ask
    /// Keep messages and deliver them together, so often. (R-MSG-08)
    case batch(Duration)
  }

  /// The default of each setting.
  public init() {}
}

/// Network keep-alive. (R-VOIP)
public struct NetworkPolicy: Sendable, Hashable {
  /// Whether data and heartbeats reanimate apps.
  public var isOn = true
  /// A shorter heartbeat is refused.
  public var minimumHeartbeat: Duration = .seconds(600)

  /// The default of each setting.
  public init() {}
}

/// The fetch mode. (R-MAN-02)
public struct FetchPolicy: Sendable, Hashable {
  /// Whether apps are woken to fetch.
  public var isOn = true
  /// At least so long from one fetch of an app to the next.
  public var shortest: Duration = .seconds(900)
  /// At most so long from one fetch of an app to the next.
  public var longest: Duration = .seconds(4 * 3600)
  /// How long one fetch may take; then it has failed.
  public var limit: Duration = .seconds(30)

  /// The default of each setting.
  public init() {}
}

/// Power. (R-PWR)
public struct PowerPolicy: Sendable, Hashable {
  /// No restrictions while external power is there. (R-PWR-02)
  public var fullOnMains = false
  /// On loss of power all but the active app go to background. (R-PWR-04)
  public var pushesBack = true

  /// The default of each setting.
  public init() {}
}
