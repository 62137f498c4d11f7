/// An app of a system: its place in the order of registration. Never used again.
public struct AppID: Sendable, Hashable, Comparable, CustomStringConvertible {
  public let number: Int
  package init(_ number: Int) { self.number = number }

  public static func < (left: AppID, right: AppID) -> Bool { left.number < right.number }
  public var description: String { "app\(number)" }
}

/// An open task. Numbers only grow. (R-TASK-12, R-SAMP-03)
public struct TaskID: Sendable, Hashable, Comparable, CustomStringConvertible {
  public let number: UInt32
  public init(number: UInt32) { self.number = number }

  /// The identifier of no task.
  public static let invalid = TaskID(number: 0)

  public static func < (left: TaskID, right: TaskID) -> Bool { left.number < right.number }
  public var description: String { self == .invalid ? "invalid task" : "task \(number)" }
}

/// A question to the user that awaits its answer.
public struct PromptID: Sendable, Hashable, CustomStringConvertible {
  public let number: UInt32
  public var description: String { "prompt \(number)" }
}

/// Why an app was launched; what its launch options say. (R-LIFE-09, R-LIFE-10)
public enum LaunchReason: String, Sendable, Hashable, CaseIterable, Codable {
  case user, system, message, data, heartbeat, fetch, location, completion
}

/// What an app can be reanimated by. It may name those that it wants; by default all. (R-LIFE-23)
public enum Wake: String, Sendable, Hashable, CaseIterable, Codable {
  case message, data, heartbeat, fetch, completion, location, audio
}

/// A message for an app, from outside or from itself. (R-MSG-02)
public struct Message: Sendable, Hashable {
  public enum Origin: String, Sendable, Hashable, Codable { case push, local }

  public var origin: Origin
  /// Chosen by the sender; for the receiver to tell messages apart.
  public var kind: String
  /// Its content, by key.
  public var payload: [String: String]

  public init(_ kind: String, payload: [String: String] = [:], origin: Origin = .push) {
    self.kind = kind
    self.payload = payload
    self.origin = origin
  }

  /// What an app receives of its own notification: of the kind "notification", with its body, action and sound.
  init(_ notification: LocalNotification) {
    self.init("notification", payload: ["body": notification.body], origin: .local)
    payload["action"] = notification.action
    payload["sound"] = notification.sound
  }
}

/// What a fetch brought. (R-MAN-02)
public enum FetchResult: String, Sendable, Hashable, CaseIterable, Codable { case newData, noData, failed }

/// What happens to one app, or what it does.
public enum AppEvent: Sendable, Hashable {
  // The user and the system.
  case launch
  case launchInBackground(LaunchReason)
  case bringForward
  case leave
  case interrupt
  case endInterruption
  case terminate
  case hibernate
  case memoryWarning
  case locationEvent
  /// Work that the kernel did for it has finished. (R-FTS-08)
  case completion

  // What the host saw.
  case returned(Callback)
  case stopped
  case reaped
  case exited
  /// It has used CPU time.
  case worked(Duration)
  /// Its bytes in main memory, for ``AppSystem/footprint``. Who goes when memory is short is the memory layer's choice.
  case footprint(UInt64)

  // Task completion.
  case beginTask(TaskKind)
  case endTask(TaskID)
  /// Work of a kind goes on, declared or not. (R-TASK-11)
  case workBegan(TaskKind)
  case workEnded(TaskKind)

  // Audio.
  case audioBegan(AudioActivity)
  case audioPaused
  case audioResumed
  case audioEnded
  /// Real-time code runs from this file.
  case realTimeCode(String)

  // Messages, network, fetch, location.
  case message(Message)
  /// It has handled what it was woken for.
  case handled
  case wakesOn(Set<Wake>)
  case schedule(LocalNotification)
  case cancelLocalNotifications
  /// It asks the user something. (R-MSG-06)
  case present(String)
  case data(bytes: Int)
  /// The interval that it asks for on suspension; `nil`: none.
  case heartbeat(Duration?)
  case heartbeatSent
  case call(String)
  case fetched(FetchResult)
  case trackingBegan
  case trackingEnded
  /// Something that apps hear of when they return, by kind. (R-COAL)
  case changed(kind: String, to: String)

  // Resources.
  case lock(SharedResource)
  case unlock(SharedResource)
  case request(Hardware)
  case release(Hardware)
  case conduct(Conduct)
}

/// What happens to the machine.
public enum SystemEvent: Sendable, Hashable {
  case app(AppID, AppEvent)
  /// Whatever is active leaves the front.
  case home
  case power(PowerSupply)
  /// A further display goes on. (R-TASK-03)
  case displayActivated
  /// The wall clock was set: seconds since 1970 at this moment.
  case wallClock(Double)
  case answer(PromptID, accepted: Bool)
}

/// What the machine runs on.
public enum PowerSupply: String, Sendable, Hashable, CaseIterable, Codable { case mains, battery }
