internal import OpportuneBase

/// Of which waits of foreground work for suspended apps to warn, and when: such a wait lasts until the app is
/// resumed. Each is told of once, after a delay. A pure value: apps, by their numbers, are shown as they are,
/// and times, in nanoseconds, are the caller's.
struct SuspendedWaits: Sendable {
  /// An app that has not ended.
  struct App: Sendable {
    var isSuspended: Bool
    /// Changes when the app is resumed.
    var generation: UInt64
    var isOfForeground: Bool
    /// None of its slices runs.
    var isQuiet: Bool
    /// Who waits for the app; of several, who came last. And how many waits for it have ended.
    var waiter: UInt64?
    var endedWaits: UInt64
  }

  /// Tells of an app; nil where it has ended.
  typealias Sight = (_ app: UInt64) -> App?

  /// A wait of one app's work for another app that is suspended: one for each two and each suspension.
  private struct Wait {
    let app: UInt64
    let waiter: UInt64
    let generation: UInt64
    /// How many waits for the app had ended at the last look.
    var ended: UInt64
    /// When to look at the wait again, or `.max`.
    var look: UInt64

    /// The app, as long as it is in the same suspension.
    func suspended(_ sight: Sight) -> App? {
      sight(app).flatMap { $0.isSuspended && $0.generation == generation ? $0 : nil }
    }
  }

  private var waits: [Wait] = []

  /// When to look at them next, or `.max`.
  var next: UInt64 { waits.map(\.look).min() ?? .max }

  mutating func note(_ found: [(waiter: UInt64, app: UInt64)], lookAt look: UInt64, _ sight: Sight) {
    waits.removeAll { $0.suspended(sight) == nil }
    var known = Set(waits.map { [$0.app, $0.waiter] })
    for (waiter, app) in found {
      guard let seen = sight(app), seen.isSuspended, known.insert([app, waiter]).inserted else { continue }
      waits.append(
        Wait(app: app, waiter: waiter, generation: seen.generation, ended: seen.endedWaits, look: look))
    }
  }

  /// Takes those to warn of. Others are looked at again `delay` after `now`.
  mutating func takeDue(
    at now: UInt64, delay: UInt64, _ sight: Sight
  ) -> [(waiter: UInt64, suspended: UInt64)] {
    var due: [(waiter: UInt64, suspended: UInt64)] = []
    waits = waits.compactMap { wait in
      guard let app = wait.suspended(sight) else { return nil }
      var wait = wait
      guard wait.look <= now else { return wait }
      // Not yet a hang. Either a slice that ran at the suspension has not ended, and may be what is waited
      // for. Or a wait has ended since the last look; it may have been this one, and the current one has
      // only begun.
      guard app.waiter == nil || app.isQuiet && app.endedWaits == wait.ended else {
        (wait.ended, wait.look) = (app.endedWaits, now.saturatingAdd(delay))
        return wait
      }
      // Nothing waits any more, or who did has ended, is suspended or is in the background.
      guard app.waiter != nil, let waiter = sight(wait.waiter), !waiter.isSuspended, waiter.isOfForeground
      else { return nil }
      wait.look = .max  // it is kept, so that it is not told of again
      due.append((wait.waiter, wait.app))
      return wait
    }
    return due
  }
}
