/// An app of a system: its place in the order of registration. Never used again.
public struct AppID: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// In the order of registration, from 0.
  public let number: Int
  package init(_ number: Int) { self.number = number }

  public static func < (left: AppID, right: AppID) -> Bool { left.number < right.number }
  public var description: String { "app\(number)" }
}

/// An open task. Numbers only grow. (R-TASK-12, R-SAMP-03)
public struct TaskID: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// In the order in which tasks began; 0 is none.
  public let number: UInt32
  /// The task of a number.
  public init(number: UInt32) { self.number = number }

  /// The identifier of no task.
  public static let invalid = TaskID(number: 0)

  public static func < (left: TaskID, right: TaskID) -> Bool { left.number < right.number }
  public var description: String { self == .invalid ? "invalid task" : "task \(number)" }
}

/// A question to the user that awaits its answer.
public struct PromptID: Sendable, Hashable, CustomStringConvertible {
  /// In the order of the questions.
  public let number: UInt32
  public var description: String { "prompt \(number)" }
}

/// Why an app was launched; what its launch options say. (R-LIFE-09, R-LIFE-10)
public enum LaunchReason: String, Sendable, Hashable, CaseIterable, Codable {
  /// The user started it.
  case user
  /// The system did.
  case system
  /// A message came for it.
  case message
  /// Data came for it.
  case data
  /// Its heartbeat is due.
  case heartbeat
  /// It may fetch.
  case fetch
  /// A location came for it.
  case location
  /// Work of the kernel's ended for it.
  case completion
}

/// What an app can be reanimated by. It may name those that it wants; by default all. (R-LIFE-23)
public enum Wake: String, Sendable, Hashable, CaseIterable, Codable {
  /// A message.
  case message
  /// Data on a socket that is kept alive.
  case data
  /// Its heartbeat.
  case heartbeat
  /// A time to fetch.
  case fetch
  /// A completion of the kernel's.
  case completion
  /// A location or a crossing.
  case location
  /// The end of an interruption of its audio.
  case audio
}

/// A message for an app, from outside or from itself. (R-MSG-02)
public struct Message: Sendable, Hashable {
  /// Where a message is from.
  public enum Origin: String, Sendable, Hashable, Codable {
    /// From outside.
    case push
    /// The app's own notification.
    case local
  }

  /// Where it is from.
  public var origin: Origin
  /// Chosen by the sender; for the receiver to tell messages apart.
  public var kind: String
  /// Its content, by key.
  public var payload: [String: String]

  /// A message of a kind.
  public init(_ kind: String, payload: [String: String] = [:], origin: Origin = .push) {
    self.kind = kind
    self.payload = payload
    self.origin = origin
  }

  /// What an app receives of its own notification: of the kind "notification", with its body, action and
  /// sound.
  init(_ notification: LocalNotification) {
    self.init("notification", payload: ["body": notification.body], origin: .local)
    payload["action"] = notification.action
    payload["sound"] = notification.sound
  }
}

/// What a fetch brought. (R-MAN-02)
public enum FetchResult: String, Sendable, Hashable, CaseIterable, Codable {
  /// It has something new.
  case newData
  /// There was nothing new.
  case noData
  /// It could not.
  case failed
}

/// What happens to one app, or what it does.
public enum AppEvent: Sendable, Hashable {
  // The user and the system.
  /// The user starts it.
  case launch
  /// It is started without coming to the front.
  case launchInBackground(LaunchReason)
  /// It comes to the front.
  case bringForward
  /// It leaves the front.
  case leave
  /// It stays in front, and loses the user's input.
  case interrupt
  /// It has the user's input again.
  case endInterruption
  /// It ends.
  case terminate
  /// Its state goes to the store; it is suspended.
  case hibernate
  /// Memory is short.
  case memoryWarning
  /// A location or a crossing came for it.
  case locationEvent
  /// Work that the kernel did for it has finished. (R-FTS-08)
  case completion

  // What the host saw.
  /// A callback has returned.
  case returned(Callback)
  /// Its last slice has ended.
  case stopped
  /// Nothing of it is left.
  case reaped
  /// It ended by itself.
  case exited
  /// It has used CPU time.
  case worked(Duration)
  /// Its bytes in main memory, for ``AppView/footprint``. Who goes when memory is short is the memory layer's
  /// choice.
  case footprint(UInt64)

  // Task completion.
  /// It asks for time in background.
  case beginTask(TaskKind)
  /// What it asked time for is done.
  case endTask(TaskID)
  /// Work of a kind goes on, declared or not. (R-TASK-11)
  case workBegan(TaskKind)
  /// Work of a kind is done.
  case workEnded(TaskKind)

  // Audio.
  /// It plays or records from now on.
  case audioBegan(AudioActivity)
  /// It pauses.
  case audioPaused
  /// It goes on.
  case audioResumed
  /// It plays and records no more.
  case audioEnded
  /// Real-time code runs from this file.
  case realTimeCode(String)

  // Messages, network, fetch, location.
  /// A message came for it.
  case message(Message)
  /// It has handled what it was woken for.
  case handled
  /// What it wants to be reanimated by.
  case wakesOn(Set<Wake>)
  /// It schedules a notification.
  case schedule(LocalNotification)
  /// It wants none of those that it scheduled.
  case cancelLocalNotifications
  /// It asks the user something. (R-MSG-06)
  case present(String)
  /// So many bytes arrived for it.
  case data(bytes: Int)
  /// The interval that it asks for on suspension; `nil`: none.
  case heartbeat(Duration?)
  /// It has sent its heartbeat.
  case heartbeatSent
  /// It tells the user of a call.
  case call(String)
  /// A fetch has ended.
  case fetched(FetchResult)
  /// It follows the device from now on.
  case trackingBegan
  /// It does not follow the device any more.
  case trackingEnded
  /// Something that apps hear of when they return, by kind. (R-COAL)
  case changed(kind: String, to: String)

  // Resources.
  /// It locks a shared resource.
  case lock(SharedResource)
  /// It unlocks a shared resource.
  case unlock(SharedResource)
  /// It asks for hardware.
  case request(Hardware)
  /// It gives hardware back.
  case release(Hardware)
  /// It does what a best-practice rule looks at.
  case compliance(Compliance)
}

/// What happens to the machine.
public enum SystemEvent: Sendable, Hashable {
  /// Something happens to an app.
  case app(AppID, AppEvent)
  /// Whatever is active leaves the front.
  case home
  /// The machine runs on this from now on.
  case power(PowerSupply)
  /// A further display goes on. (R-TASK-03)
  case displayActivated
  /// The wall clock was set: seconds since 1970 at this moment.
  case wallClock(Double)
  /// The user has answered a question.
  case answer(PromptID, accepted: Bool)
}

/// What the machine runs on.
public enum PowerSupply: String, Sendable, Hashable, CaseIterable, Codable {
  /// External power.
  case mains
  /// Its own battery.
  case battery
}
