internal import OpportuneBase

/// What an app's timers are for; one of each at a time.
enum DeadlineKind: UInt8, Sendable, CaseIterable {
  case callback, grace, slice, tasks, handler, idle, event, fetch, fetchLimit, heartbeat, batch, local, front
}

/// The timers of all apps.
///
/// Invariants: a timer is armed exactly while its time is noted in `due`; an entry of the queue that says
/// another time is stale, and comes to nothing.
struct AppTimers: Sendable {
  private static let kinds = DeadlineKind.allCases.count
  /// Places in `due`, by time.
  private var queue = TimeQueue<Moment, Int32>()
  /// Of app after app, by kind. The distant future: not armed.
  private var due: [Moment] = []

  private func place(_ kind: DeadlineKind, _ app: AppID) -> Int {
    app.number * Self.kinds + Int(kind.rawValue)
  }

  /// One app more is known.
  mutating func addApp() { due += repeatElement(.distantFuture, count: Self.kinds) }

  /// When a timer is due; `nil`: it is not armed.
  func deadline(_ kind: DeadlineKind, of app: AppID) -> Moment? {
    let moment = due[place(kind, app)]
    return moment == .distantFuture ? nil : moment
  }

  mutating func arm(_ kind: DeadlineKind, of app: AppID, at moment: Moment) {
    let place = place(kind, app)
    guard due[place] != moment else { return }
    due[place] = moment
    guard moment != .distantFuture else { return }
    queue.add(Int32(truncatingIfNeeded: place), at: moment)
    // Stale entries are cheap, but not for ever.
    if queue.count > 64 + 4 * (due.count / Self.kinds) {
      let due = due
      queue.compact { due[Int($0)] == $1 }
    }
  }

  mutating func disarm(_ kind: DeadlineKind, of app: AppID) { due[place(kind, app)] = .distantFuture }

  /// When the next one is due.
  var next: Moment? {
    mutating get {
      let due = due
      queue.skip { due[Int($0)] == $1 }
      return queue.next
    }
  }

  /// Takes the first that is due before `moment`, or, where that is inclusive, at it.
  mutating func pop(
    until moment: Moment, inclusive: Bool
  ) -> (time: Moment, kind: DeadlineKind, app: AppID)? {
    while let (time, entry) = queue.first, time < moment || (inclusive && time == moment) {
      queue.popFirst()
      let place = Int(entry)
      guard due[place] == time else { continue }
      due[place] = .distantFuture
      return (time, DeadlineKind.allCases[place % Self.kinds], AppID(place / Self.kinds))
    }
    return nil
  }
}
