/// What an app's timers are for; one of each at a time.
package enum DeadlineKind: UInt8, Sendable, CaseIterable {
  case callback, grace, slice, tasks, handler, idle, event, fetch, fetchLimit, heartbeat, batch, local, front
}

/// A timer of an app. It is stale where the app's own note of it says another time.
struct Deadline: Sendable {
  let app: Int32
  let kind: DeadlineKind

  func isCurrent(at moment: Moment, of apps: [LifecycleRecord]) -> Bool {
    apps[Int(app)].deadlines[Int(kind.rawValue)] == moment
  }
}
