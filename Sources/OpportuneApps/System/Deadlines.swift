/// The purposes of an app's timers; each app has at most one timer of each kind.
package enum DeadlineKind: UInt8, Sendable, CaseIterable {
  case callback, grace, slice, tasks, handler, idle, event, fetch, fetchLimit, heartbeat, batch, local, front
}

/// A timer of an app. It is stale if the app's own deadline differs.
struct Deadline: Sendable {
  let app: Int32
  let kind: DeadlineKind

  func isCurrent(at moment: Moment, of apps: [LifecycleRecord]) -> Bool {
    apps[Int(app)].deadlines[Int(kind.rawValue)] == moment
  }
}
