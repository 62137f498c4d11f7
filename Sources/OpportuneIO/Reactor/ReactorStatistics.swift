internal import COpportune
import DequeModule

/// Counters of all apps, including those that have ended.
///
/// Invariant: the counters of an app are in `goneInAll` exactly once, from `keep` on; before that they are in
/// the app's entry.
///
/// Reactor's thread only.
final class ReactorStatistics {
  private static let goneLimit = 32

  /// Sums of ended apps, by class.
  private var goneInAll = [IOStatistics.Class(), IOStatistics.Class()]
  private var gone = Deque<IOStatistics.App>()

  /// Adds the counters of an app that ends.
  func keep(_ app: AppEntry) {
    let values = values(of: app)
    goneInAll[0].add(values.foreground)
    goneInAll[1].add(values.background)
    gone.append(values)
    if gone.count > Self.goneLimit { gone.removeFirst() }
  }

  func all(
    _ apps: [AppEntry], storage: IOStatistics.Device, network: IOStatistics.Device, wakeups: UInt64,
    usesUring: Bool
  ) -> IOStatistics {
    var classes = goneInAll
    let each = apps.map { values(of: $0) }
    for app in each {
      classes[0].add(app.foreground)
      classes[1].add(app.background)
    }
    return IOStatistics(
      apps: each, gone: Array(gone), storage: storage, network: network, foreground: classes[0],
      background: classes[1], wakeups: wakeups, usesUring: usesUring)
  }

  private func values(of app: AppEntry) -> IOStatistics.App {
    var foreground = app.counters[0]
    foreground.add(app.inline.counts)
    return IOStatistics.App(
      number: app.number, name: app.name, state: app.state, foreground: foreground,
      background: app.counters[1],
      inFlight: app.inFlight.count + app.inline.gate.callers, held: app.held.count,
      openDescriptors: app.descriptors.count)
  }
}
