import OpportuneApps
import OpportuneMemory

/// A policy of removal that `opportune replay --policy` knows by name.
package enum NamedPolicy: String, Sendable, Hashable, CaseIterable {
  /// The default.
  case lru
  /// Least recently used, heavy apps as all others.
  case plain
  case largest
  case longest
  /// As `lru`, and nothing is hibernated.
  case terminate

  package var policy: RemovalPolicy {
    var policy = RemovalPolicy()
    switch self {
    case .lru: break
    case .plain: policy.heavyShare = nil
    case .largest: policy.order = .largest
    case .longest: policy.order = .largestForLongest
    case .terminate: policy.hibernates = false
    }
    return policy
  }

  package var explanation: String {
    switch self {
    case .lru: "in front longest ago; heavy apps first"
    case .plain: "in front longest ago"
    case .largest: "holds most"
    case .longest: "holds most for longest"
    case .terminate: "as lru, none is hibernated"
    }
  }
}

/// Policies of removal side by side, on one trace with one budget. (R-MEM-09)
package struct PolicyComparison: Sendable {
  /// What one policy did.
  package struct Outcome: Sendable, Hashable {
    package var policy: NamedPolicy
    package var kills: Int
    package var hibernations: Int
    /// How often a hibernated app came back.
    package var reanimations: Int
    /// Those of them to the front, where they are waited for.
    package var frontReanimations: Int
    package var coldStarts: Int
    /// What hibernations wrote, if nothing of an app can be made again and nothing is compressed.
    package var bytesWritten: UInt64
    package var removals: [ReplayRemoval]

    /// What policies are told apart by.
    var figures: [UInt64] { [UInt64(kills), UInt64(hibernations), UInt64(coldStarts), bytesWritten] }
  }

  package var format: String
  package var apps: Int
  /// Apps whose sizes the trace says; those of the others are drawn.
  package var sizesRecorded: Int
  package var switches = 0
  /// All apps together, in bytes.
  package var footprint: UInt64
  package var seed: UInt64
  package var table: FootprintTable
  package var criticalShare: Double
  /// Budgets in bytes that were tried; the last one is that of the outcomes.
  package var budgets: [UInt64] = []
  package var outcomes: [Outcome] = []
  /// As of the trace.
  package var notes: [String]

  /// Whether the policies differ at the last budget.
  package var differs: Bool { Set(outcomes.map(\.figures)).count > 1 }
  /// Whether they differ in what the person in front waits for.
  package var isFelt: Bool { Set(outcomes.map { [$0.coldStarts, $0.frontReanimations] }).count > 1 }

  /// Runs each policy with one budget; without one, from what holds all apps down, by a tenth each time,
  /// until the policies differ in how apps come to the front, or the budget holds the largest app alone.
  ///
  /// - Throws: ``PolicyError``, ``AppsError``.
  package init(
    _ trace: Trace, _ policies: [NamedPolicy], table: FootprintTable, seed: UInt64, budget: UInt64? = nil,
    options: ReplayOptions = ReplayOptions()
  ) throws {
    let names = Set(trace.inputs.compactMap(\.input.runs)).sorted()
    let recorded = trace.sizes.compactMapValues { $0.max() }
    let sizes = Dictionary(
      uniqueKeysWithValues: names.map { ($0, recorded[$0] ?? table.draw($0, seed: seed)) })
    format = trace.format
    apps = names.count
    sizesRecorded = names.count { recorded[$0] != nil }
    notes = trace.notes
    footprint = sizes.values.reduce(0, +)
    criticalShare = options.criticalPoint.share
    self.seed = seed
    self.table = table
    guard !names.isEmpty else { return }

    func run(_ budget: UInt64) throws {
      budgets.append(budget)
      outcomes = try policies.map { named in
        var options = options
        options.sizes = sizes
        options.memory = budget
        options.removal = named.policy
        let report = try Replay.run(trace, options)
        switches = report.switchCount
        let hibernated = report.removals.filter { $0.method == .hibernate }
        return Outcome(
          policy: named, kills: report.removals.count - hibernated.count, hibernations: hibernated.count,
          reanimations: report.reanimations, frontReanimations: report.switches[.hibernated] ?? 0,
          coldStarts: report.switches[.cold] ?? 0,
          bytesWritten: hibernated.reduce(0) { $0 + $1.bytes }, removals: report.removals)
      }
    }
    if let budget {
      try run(budget)
      return
    }
    func atCriticalPoint(_ bytes: UInt64) -> UInt64 { UInt64(min(Double(bytes) / criticalShare, 0x1p62)) }
    var budget = atCriticalPoint(footprint + footprint / 20)
    let least = atCriticalPoint(sizes.values.max() ?? 0)
    repeat {
      try run(budget)
      budget = budget / 10 * 9
    } while !isFelt && budget >= max(least, 10)
  }
}
