import Opportune
import OpportuneBase

/// An app that was removed in a replay.
package struct ReplayRemoval: Sendable, Hashable, Codable {
  /// Seconds since 1970.
  package var at: Double
  package var app: String
  package var method: Removal.Method
  package var bytes: UInt64
  /// A sentence that answers "why was this app removed?".
  package var reason: String
}

extension [ReplayRemoval] {
  /// How many went, and how.
  var summary: String {
    guard !isEmpty else { return "none was" }
    let hibernated = count { $0.method == .hibernate }
    return "\(count - hibernated) terminated, \(hibernated) hibernated"
  }

  /// Why each went, for people: the first of them, and how to see the others.
  func lines(shown: Int) -> [String] {
    prefix(shown).map { "  \(time($0.at)) \($0.reason)" }
      + (count > shown ? ["  … \(count - shown) more; --json has all"] : [])
  }
}

/// Memory that is short in a replay. Who goes is the choice of the memory layer, as live. (R-MEM-09)
extension Replay.Run {
  /// Gives whoever has been launched its size, and removes apps until the rest fits.
  mutating func account() throws {
    guard let capacity = options.memory else { return }
    while accounted < host.log.count {
      let entry = host.log[accounted]
      accounted += 1
      guard case .launched = entry.action else { continue }
      launches[entry.app] = entry.moment
      try size(entry.app)
    }
    try relieve(capacity)
  }

  private mutating func size(_ id: AppID) throws {
    if let view = host.system.view(of: id), view.state.isInMemory, view.footprint == 0 {
      let name = names[id.number]
      try host.post(.footprint(sizes[name] ?? options.sizes[name] ?? options.footprint), id)
    }
  }

  private mutating func relieve(_ capacity: UInt64) throws {
    let point = options.criticalPoint
    let gauge = try PressureGauge(warning: min(.half, point), critical: point, margin: 0)
    while true {
      let reading = MemoryReading(capacity: capacity, inUse: host.system.footprint)
      let excess = gauge.excess(reading)
      guard excess > 0 else { return }
      let candidates = candidates()
      guard let removal = options.removal.choose(candidates, excess: excess, reading: reading),
        let chosen = candidates.first(where: { $0.app == removal.app })
      else { return }
      try host.post(removal.method == .hibernate ? .hibernate : .terminate, AppID(Int(removal.app)))
      report.removals.append(
        ReplayRemoval(
          at: start + host.now.seconds, app: chosen.name, method: removal.method, bytes: chosen.footprint,
          reason: removal.reason))
    }
  }

  private func candidates() -> [RemovalCandidate] {
    names.indices.compactMap { number in
      let id = AppID(number)
      guard let view = host.system.view(of: id), view.state.isInMemory,
        let snapshot = host.system.snapshot(of: id)
      else { return nil }
      let used = view.lastUsed ?? launches[id] ?? host.now
      return RemovalCandidate(
        app: UInt32(number), name: names[number], standing: AppStanding(snapshot), footprint: view.footprint,
        idle: UInt64(max(0, (host.now - used).inSeconds * 1e9)), wasInFront: view.lastUsed != nil)
    }
  }
}
