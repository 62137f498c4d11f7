/// All settings of the lifecycle and its services, with their defaults.
///
/// Where the sources of the requirements disagree, the alternatives are settings here.
public struct AppsPolicy: Sendable, Hashable {
  // MARK: Lifecycle

  /// Whether multitasking is supported. If not, leaving the foreground terminates an app. (R-LIFE-21)
  public var supportsMultitasking = true
  /// The number of apps in the foreground; one by default. Of several, one is active and the others are
  /// inactive. (R-LIFE-04, R-LIFE-05)
  public var maximumForeground = 1
  /// The time limit of a callback.
  public var callbackLimit: Duration = .seconds(5)
  /// What happens when a callback exceeds its limit. An overrun of `didEnterBackground` always terminates.
  /// (R-FTS-03)
  public var callbackOverrun: Overrun = .report
  /// Whether events launch apps that do not run. (R-MSG-04)
  public var eventsLaunchApps = true
  /// The time to handle an event for an app that it reanimated, if no other service applies.
  public var eventTime: Duration = .seconds(10)

  /// What happens after an overrun.
  public enum Overrun: Sendable, Hashable, CaseIterable {
    /// It is reported only.
    case report
    /// The app is terminated.
    case terminate
  }

  // MARK: Fast task switching

  /// Which apps are suspended.
  public var switching: Switching = .all
  /// The time from leaving the foreground to suspension; 0 or more, five seconds by default. (R-FTS-02)
  ///
  /// It is also the time within which `didEnterBackground` must have returned, as it must within
  /// ``callbackLimit``: an app whose callback comes later is terminated, whatever ``callbackOverrun`` says.
  /// (R-FTS-03) It runs while the callback waits for a CPU, and for the callbacks before it. So with a grace
  /// of a millisecond an app may end that has done nothing wrong, and with 0 each does whose callback takes
  /// any time. For an early suspension, as in a test, set ``suspendsOnReturn`` and leave the grace long.
  public var grace: Duration = .seconds(5)
  /// Whether an app is suspended as soon as `didEnterBackground` has returned, and not at the end of the
  /// grace time.
  public var suspendsOnReturn = false
  /// How long a running slice may continue after the end of its app's time before it is an overrun.
  /// (R-FTS-03)
  public var sliceAllowance: Duration = .seconds(1)
  /// What happens when a slice exceeds the allowance.
  public var sliceOverrun: Overrun = .terminate
  /// Whether the completion of a kernel request reanimates a suspended app. (R-FTS-08)
  public var completionsReanimate = false

  /// Which apps are suspended when nothing keeps them in the background.
  public enum Switching: Sendable, Hashable, CaseIterable {
    /// Every app. (R-FTS-04)
    case all
    /// Apps that declare it. (R-FTS-05)
    case optIn
    /// No app: the service is off.
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
  /// The restrictions of each state.
  public var restrictions = RestrictionPolicy()

  /// Makes a policy of the defaults.
  public init() {}

  /// The defaults.
  public static let standard = AppsPolicy()
}

/// The policy of task completion. (R-TASK)
public struct TaskPolicy: Sendable, Hashable {
  /// Whether apps get time for tasks.
  public var isOn = true
  /// The wall-clock limit: 3 minutes; 5, 10 and 30 are customary too. `nil` is no limit. (R-TASK-04)
  public var wallClock: Duration? = .seconds(180)
  /// The limit of the app's CPU time since it left the foreground; at least 5 ms. (R-TASK-05)
  public var cpuTime: Duration?
  /// Whether loss of external power ends all tasks.
  public var endsOnPowerLoss = false
  /// Whether activation of a further display ends all tasks. (R-TASK-03)
  public var endsOnDisplay = false
  /// How long the expiration handler may take to end the task. (R-TASK-13)
  public var handlerTime: Duration = .seconds(5)
  /// What happens to an app that never ends its task. (R-TASK-14)
  public var unfinished: End = .terminate
  /// What happens after the last task was ended. (R-TASK-08)
  public var finished: End = .suspend
  /// Whether only apps whose manifest or settings declare it get time. (R-TASK-09)
  public var needsDeclaration = false
  /// Kinds of work that get time without a task. (R-TASK-11)
  public var eligible: Set<TaskKind> = []
  /// How many tasks an app may have at the same time.
  public var maximum = 1000
  /// An app that holds a task without using CPU time for this long loses it. (R-TASK-17)
  public var idleLimit: Duration?

  /// What happens to an app.
  public enum End: Sendable, Hashable, CaseIterable {
    /// It is suspended.
    case suspend
    /// It is terminated.
    case terminate
  }

  /// Makes a policy of the defaults.
  public init() {}
}

/// The kind of a task's work, for policies that depend on it. (R-TASK-02)
public enum TaskKind: String, Sendable, Hashable, CaseIterable, Codable {
  /// An upload.
  case upload
  /// A download.
  case download
  /// A write to storage.
  case storage
  /// Image processing.
  case image
  /// Any other work.
  case other
}

/// The policy of audio. (R-AUD)
public struct AudioPolicy: Sendable, Hashable {
  /// Whether audio keeps apps in the background.
  public var isOn = true
  /// How many apps may have real-time audio in the background at the same time. (R-AUD-03, R-AUD-04)
  public var maximum = 1
  /// Which app gives way when there are too many.
  public var gives: Gives = .older
  /// What happens to an app whose audio pauses. (R-AUD-05, R-AUD-06)
  public var pause: Pause = .suspend
  /// The files from which real-time code may run in the background, as named by the dynamic linker; `nil` is
  /// any. (R-AUD-07)
  public var approvedLibraries: Set<String>?
  /// Whether the service is only for apps that declare it. If false, any app that plays or records has it.
  /// (R-AUD-08)
  public var needsDeclaration = true

  /// Which app gives way.
  public enum Gives: Sendable, Hashable, CaseIterable {
    /// The one that began to play first.
    case older
    /// The one that began to play last.
    case newer
  }
  /// What happens to an app whose audio pauses.
  public enum Pause: Sendable, Hashable, CaseIterable {
    /// It is suspended.
    case suspend
    /// It is hibernated.
    case hibernate
  }

  /// Makes a policy of the defaults.
  public init() {}
}

/// The policy of messages and local notifications. (R-MSG)
public struct MessagePolicy: Sendable, Hashable {
  /// Whether messages reach apps that are not in the foreground.
  public var isOn = true
  /// How messages reach them.
  public var delivery: Delivery = .reanimate

  /// How a message reaches an app that is not in the foreground.
  public enum Delivery: Sendable, Hashable {
    /// It reanimates the app into the background. (R-MSG-03)
    case reanimate
    /// The user is asked, and may bring the app to the foreground. (R-MSG-05)
    case ask
    /// Messages are collected and delivered together, at this interval. (R-MSG-08)
    case batch(Duration)
  }

  /// Makes a policy of the defaults.
  public init() {}
}

/// The policy of network keep-alive. (R-VOIP)
public struct NetworkPolicy: Sendable, Hashable {
  /// Whether data and heartbeats reanimate apps.
  public var isOn = true
  /// The shortest heartbeat interval; a shorter one is refused.
  public var minimumHeartbeat: Duration = .seconds(600)

  /// Makes a policy of the defaults.
  public init() {}
}

/// The policy of the fetch mode. (R-MAN-02)
public struct FetchPolicy: Sendable, Hashable {
  /// Whether apps are woken to fetch.
  public var isOn = true
  /// The shortest time from one fetch of an app to the next.
  public var shortest: Duration = .seconds(900)
  /// The longest time from one fetch of an app to the next.
  public var longest: Duration = .seconds(4 * 3600)
  /// The time limit of a fetch; a fetch that exceeds it has failed.
  public var limit: Duration = .seconds(30)

  /// Makes a policy of the defaults.
  public init() {}
}

/// The policy of power. (R-PWR)
public struct PowerPolicy: Sendable, Hashable {
  /// Whether external power lifts all restrictions. (R-PWR-02)
  public var fullOnMains = false
  /// Whether loss of power moves all apps but the active one to the background. (R-PWR-04)
  public var pushesBack = true

  /// Makes a policy of the defaults.
  public init() {}
}
