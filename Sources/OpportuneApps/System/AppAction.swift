/// What an app does or asks for, by ``HostedApp/post(_:)``. What happens to it is an ``AppEvent``.
public enum AppAction: Sendable, Hashable {
  // Task completion.
  /// It asks for background time.
  case beginTask(TaskKind)
  /// The work of the task is done.
  case endTask(TaskID)
  /// Work of a kind begins, with or without a task. (R-TASK-11)
  case workBegan(TaskKind)
  /// Work of a kind has ended.
  case workEnded(TaskKind)

  // Audio.
  /// It begins to play or record.
  case audioBegan(AudioActivity)
  /// It pauses.
  case audioPaused
  /// It resumes.
  case audioResumed
  /// It stops playing and recording.
  case audioEnded

  // Messages, network, fetch.
  /// It has handled the event that reanimated it.
  case handled
  /// The events by which it wants to be reanimated.
  case wakesOn(Set<Wake>)
  /// It schedules a notification.
  case schedule(LocalNotification)
  /// It cancels all notifications that it has scheduled.
  case cancelLocalNotifications
  /// It asks the user something. (R-MSG-06)
  case present(String)
  /// The heartbeat interval that it requests for its suspension; `nil` is none.
  case heartbeat(Duration?)
  /// It has sent its heartbeat.
  case heartbeatSent
  /// It reports a call to the user.
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
  /// It releases hardware.
  case release(Hardware)
  /// It does something that a best-practice rule covers.
  case compliance(Compliance)
}
