import OpportuneApps
internal import OpportuneBase

/// Decides which source runs, for everyone at once, and who pays for it. (R-LOC-06, R-LOC-07)
///
/// The finest accuracy that anyone asks for decides; everyone gets its fixes. A source steps down when the
/// finest demand ends, and off at none. It is pure; not thread-safe: a value.
public struct SourceBroker: Sendable {
  /// What an app had of a source.
  public struct Cost: Sendable, Hashable, Codable {
    /// Seconds that it ran while the app asked for locations.
    public internal(set) var seconds = 0.0
    /// Fixes that came in that time.
    public internal(set) var fixes = 0
    /// Millijoules by the table. Those that ask for the finest source share the energy of its running
    /// equally, so that all apps together account for all of it, and who would be content with less pays
    /// nothing for the rest.
    public internal(set) var millijoules = 0.0
  }

  package let table: SourceTable
  /// What runs; `nil`: nothing.
  package private(set) var running: SourceKind?
  package private(set) var available: Set<SourceKind>
  /// By app and source.
  public private(set) var costs: [AppID: [SourceKind: Cost]] = [:]
  /// The finest accuracy that each app asks for, in metres.
  private var demands: [AppID: Double] = [:]
  private var accounted = Moment.zero

  init(table: SourceTable, available: Set<SourceKind>) {
    self.table = table
    self.available = available
  }

  /// Sets all demands anew.
  ///
  /// - Returns: whether something else runs now.
  mutating func demand(_ finest: [AppID: Double], at moment: Moment) -> Bool {
    account(until: moment)
    demands = finest
    return choose()
  }

  /// - Returns: whether something else runs now.
  mutating func setAvailable(_ kind: SourceKind, _ isAvailable: Bool, at moment: Moment) -> Bool {
    account(until: moment)
    if isAvailable { available.insert(kind) } else { available.remove(kind) }
    return choose()
  }

  mutating func count(_ fix: Fix) {
    for app in demands.keys { costs[app, default: [:]][fix.source, default: Cost()].fixes += 1 }
  }

  /// Books what ran until now.
  mutating func account(until moment: Moment) {
    let seconds = accounted.duration(to: moment).inSeconds
    accounted = moment
    guard seconds > 0, let running, let power = table[running]?.power else { return }
    let finest = demands.filter { table.source(for: $0.value, among: available) == running }
    for app in demands.keys {
      costs[app, default: [:]][running, default: Cost()].seconds += seconds
      if finest[app] != nil {
        costs[app, default: [:]][running, default: Cost()].millijoules +=
          power * seconds / Double(finest.count)
      }
    }
  }

  private mutating func choose() -> Bool {
    let wanted = demands.values.min().flatMap { table.source(for: $0, among: available) }
    defer { running = wanted }
    return wanted != running
  }
}
