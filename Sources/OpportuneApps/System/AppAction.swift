/// What an app does or asks for, by ``HostedApp/post(_:)``. What happens to it is an ``AppEvent``.
public enum AppAction: Sendable, Hashable {
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

  // Messages, network, fetch.
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
  /// The interval that it asks for on suspension; `nil`: none.
  case heartbeat(Duration?)
  /// It has sent its heartbeat.
  case heartbeatSent
  /// It tells the user of a call.
  case call(String)
  /// A fetch has ended.
  case fetched(FetchResult)

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
