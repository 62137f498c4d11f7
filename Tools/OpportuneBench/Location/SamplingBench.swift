import OpportuneBase
import OpportuneLocation
import OpportuneTraces

/// A recorded track for ``LocationBench``.
package struct RecordedTrack: Sendable {
  package var name: String
  package var trace: LocationTrace

  package init(name: String, trace: LocationTrace) {
    self.name = name
    self.trace = trace
  }
}

/// What the sampler saves and what that costs: a track through fences with every fix, and with those it asks
/// for.
struct SamplingBench: Sendable {
  struct Outcome: TrackOutcome, Sendable {
    var fixes = 0
    var used = 0
    /// Crossings told with every fix.
    var crossings = 0
    /// Of those, not told with the fixes that the sampler asked for.
    var missed = 0
    /// Told with those, and not with every fix.
    var extra = 0
    /// Of those, told of circles that the track was not in during the last minutes.
    var untrue = 0
    /// Seconds that crossings were told later, or earlier where they are below 0, than with every fix;
    /// sorted.
    var delays: [Double] = []
    /// The fewest fixes of which one is within each stay, had they been chosen with the way known beforehand.
    var fewest = 0

    mutating func add(_ other: Outcome) {
      fixes += other.fixes
      used += other.used
      crossings += other.crossings
      missed += other.missed
      extra += other.extra
      untrue += other.untrue
      delays = (delays + other.delays).sorted()
      fewest += other.fewest
    }
  }

  /// Crossings of one fence and kind that are farther apart are not the same.
  static let window = -60.0...300

  /// Circles: every other one's middle within 100 m of the track, the rest anywhere within 5 km of it.
  static func fences(_ count: Int, along trace: LocationTrace, radius: Double) throws -> [NamedRegion] {
    var random = SplitMix64(seed: 7)
    return try (0..<count).map { number in
      let near = trace.fixes[Int.random(in: 0..<trace.fixes.count, using: &random)].position
      // Even over the disc.
      let metres = Double.random(in: 0...1, using: &random).squareRoot() * (number % 2 == 0 ? 100 : 5000)
      let azimuth = Double.random(in: 0..<360, using: &random)
      let middle = Ellipsoid.place(from: near, azimuth: azimuth, metres: metres)
      return NamedRegion("\(number)", try .circle(middle, radius: radius))
    }
  }

  /// - Parameters:
  ///   - patiences: seconds, of the sampler, each with an outcome of its own.
  ///   - wander: of the monitor, where not every fix is used.
  static func run(
    _ trace: LocationTrace, among fences: [NamedRegion], patiences: [Double], wander: Double? = nil
  ) throws -> [Outcome] {
    var options = LocationReplay.Options()
    options.isContinuous = true
    let all = try LocationReplay.run(trace, fences: fences, options: options)
    options.isContinuous = false
    options.policy.monitor.wander = wander
    return try patiences.map { patience in
      options.policy.sampling.patience = .seconds(patience)
      let sampled = try LocationReplay.run(trace, fences: fences, options: options)
      var outcome = compare(all.crossings, sampled.crossings) { crossing in
        !fences.contains { fence in
          fence.name == crossing.fence
            && trace.fixes.contains {
              (crossing.at - 120...crossing.at).contains($0.time.seconds)
                && fence.region.contains($0.position)
            }
        }
      }
      outcome.fixes = trace.fixes.count
      outcome.used = sampled.used.count
      outcome.fewest = fewest(all.crossings)
      return outcome
    }
  }

  /// Each stay is looked into as late as it allows, unless a look into another was within it.
  static func fewest(_ crossings: [LocationReplay.Report.Crossing]) -> Int {
    var entered: [String: Double] = [:]
    var last = -Double.infinity
    var count = 0
    for crossing in crossings {
      switch crossing.kind {
      case .enter: entered[crossing.fence] = crossing.at
      case .exit:
        guard let since = entered.removeValue(forKey: crossing.fence), since > last else { continue }
        last = crossing.at
        count += 1
      case .dwell, .expired: continue
      }
    }
    return count
  }

  /// Pairs the crossings of each fence and kind in their order; of those left over it asks whether they are
  /// untrue.
  static func compare(
    _ expected: [LocationReplay.Report.Crossing], _ told: [LocationReplay.Report.Crossing],
    isUntrue: (LocationReplay.Report.Crossing) -> Bool = { _ in false }
  ) -> Outcome {
    var outcome = Outcome(crossings: expected.count)
    var rest = told
    for crossing in expected {
      let match = rest.firstIndex {
        $0.fence == crossing.fence && $0.kind == crossing.kind && window.contains($0.at - crossing.at)
      }
      if let match {
        outcome.delays.append(rest.remove(at: match).at - crossing.at)
      } else {
        outcome.missed += 1
      }
    }
    outcome.extra = rest.count
    outcome.untrue = rest.count(where: isUntrue)
    outcome.delays.sort()
    return outcome
  }
}
