/// Identifies an app of a system, in the order of registration. Never reused.
public struct AppID: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// The number in the order of registration, from 0.
  public let number: Int
  package init(_ number: Int) { self.number = number }

  public static func < (left: AppID, right: AppID) -> Bool { left.number < right.number }
  public var description: String { "app\(number)" }
}

/// Identifies an open task. Numbers increase. (R-TASK-12, R-SAMP-03)
public struct TaskID: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// The number in the order in which tasks began; 0 is none.
  public let number: UInt32
  /// Makes the identifier of a number.
  public init(number: UInt32) { self.number = number }

  /// The identifier of no task.
  public static let invalid = TaskID(number: 0)

  public static func < (left: TaskID, right: TaskID) -> Bool { left.number < right.number }
  public var description: String { self == .invalid ? "invalid task" : "task \(number)" }
}

/// A question to the user that awaits its answer.
public struct PromptID: Sendable, Hashable, CustomStringConvertible {
  /// The number in the order of the questions.
  public let number: UInt32
  public var description: String { "prompt \(number)" }
}

/// Why an app was launched; part of its launch options. (R-LIFE-09, R-LIFE-10)
public enum LaunchReason: String, Sendable, Hashable, CaseIterable, Codable {
  /// The user started it.
  case user
  /// The system launched it.
  case system
  /// A message arrived for it.
  case message
  /// This many bytes arrived for it.
  case data
  /// The heartbeat interval that it requests for its suspension; `nil` is none.
  case heartbeat
  /// A time to fetch.
  case fetch
  /// A location or a crossing of a fence.
  case location
  /// A kernel request of it has completed. (R-FTS-08)
  case completion
}

/// An event that can reanimate an app. An app may choose some; by default all do. (R-LIFE-23)
public enum Wake: String, Sendable, Hashable, CaseIterable, Codable {
  /// A message arrived for it.
  case message
  /// This many bytes arrived for it.
  case data
  /// The heartbeat interval that it requests for its suspension; `nil` is none.
  case heartbeat
  /// A time to fetch.
  case fetch
  /// A kernel request of it has completed. (R-FTS-08)
  case completion
  /// A location or a crossing of a fence.
  case location
  /// The end of an interruption of its audio.
  case audio
}

/// A message for an app, from outside or from itself. (R-MSG-02)
public struct Message: Sendable, Hashable {
  /// The origin of a message.
  public enum Origin: String, Sendable, Hashable, Codable {
    /// From outside.
    case push
    /// The app's own notification.
    case local
  }

  /// Its origin.
  public var origin: Origin
  /// The kind, chosen by the sender, by which the receiver tells messages apart.
  public var kind: String
  /// Its content, by key.
  public var payload: [String: String]

  /// Makes a message of a kind.
  public init(_ kind: String, payload: [String: String] = [:], origin: Origin = .push) {
    self.kind = kind
    self.payload = payload
    self.origin = origin
  }

  /// The message that an app receives for its own notification: kind "notification", with body, action and
  /// sound in the payload.
  package init(_ notification: LocalNotification) {
    self.init("notification", payload: ["body": notification.body], origin: .local)
    payload["action"] = notification.action
    payload["sound"] = notification.sound
  }
}

/// The result of a fetch. (R-MAN-02)
public enum FetchResult: String, Sendable, Hashable, CaseIterable, Codable {
  /// There is new data.
  case newData
  /// There is no new data.
  case noData
  /// The fetch failed.
  case failed
}

/// What happens to one app.
public enum AppEvent: Sendable, Hashable {
  // By the user and the system.
  /// The user starts it.
  case launch
  /// It is launched in the background.
  case launchInBackground(LaunchReason)
  /// It comes to the foreground.
  case bringForward
  /// It leaves the foreground.
  case leave
  /// It stays in the foreground, and loses the user's input.
  case interrupt
  /// It receives the user's input again.
  case endInterruption
  /// It is terminated.
  case terminate
  /// It is suspended, and its state is saved to the store.
  case hibernate
  /// Memory is short.
  case memoryWarning

  // What comes for it.
  /// A message arrived for it.
  case message(Message)
  /// This many bytes arrived for it.
  case data(bytes: Int)
  /// A location or a crossing of a fence arrived for it.
  case locationEvent
  /// A kernel request of it has completed. (R-FTS-08)
  case completion
  /// A change that apps learn when they return, by kind. (R-COAL)
  case changed(kind: String, to: String)

  // Observed by the host.
  /// A callback has returned.
  case returned(Callback)
  /// Its last slice has ended.
  case stopped
  /// All that it held has been released.
  case reaped
  /// It exited.
  case exited
  /// It has used CPU time.
  case worked(Duration)
  /// A stay in background is over, whatever its state is by now: so much CPU time was used, of how long it
  /// was.
  case workedInBackground(Duration, of: Duration)
  /// It has drawn in background, whatever its state is by now.
  case drewInBackground
  /// Its bytes in main memory, for ``AppView/footprint``. The memory layer chooses which app is removed when
  /// memory is short.
  case footprint(UInt64)
  /// Real-time code runs from this file.
  case realTimeCode(String)
  /// It begins to track the location.
  case trackingBegan
  /// It stops tracking the location.
  case trackingEnded

  /// The app does something, or asks for it.
  case does(AppAction)
}

/// An event of the machine.
public enum SystemEvent: Sendable, Hashable {
  /// An event of an app.
  case app(AppID, AppEvent)
  /// The active app leaves the foreground.
  case home
  /// The machine's power supply has changed to this.
  case power(PowerSupply)
  /// A further display is activated. (R-TASK-03)
  case displayActivated
  /// The wall clock was set to so many seconds since 1970.
  case wallClock(Double)
  /// The user has answered a question.
  case answer(PromptID, accepted: Bool)
}

/// The machine's power supply.
public enum PowerSupply: String, Sendable, Hashable, CaseIterable, Codable {
  /// External power.
  case mains
  /// Its own battery.
  case battery
}
