internal import COpportune
import DequeModule

/// What apps have done, those that are gone included.
///
/// Invariant: what an app did is in `goneInAll` exactly once, from `keep` on; before that it is in the app's
/// own counters.
///
/// The reactor's alone.
final class ReactorStatistics {
  private static let goneLimit = 32

  /// By class.
  private var goneInAll = [IOStatistics.Class(), IOStatistics.Class()]
  private var gone = Deque<IOStatistics.App>()

  /// The app goes.
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
