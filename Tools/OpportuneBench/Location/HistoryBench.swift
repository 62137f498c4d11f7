import Opportune
import OpportuneLocation
import OpportuneTraces

/// What an app's own sampling keeps of a way, and how far off the way is that is rebuilt from it. (R-SAMP-09)
struct HistoryBench: Sendable {
  struct Outcome: TrackOutcome, Sendable {
    var fixes = 0
    var used = 0
    /// Metres from the rebuilt way to each fix, at its time; sorted.
    var errors: [Double] = []
    /// Of those, how many are within the radius that is stated to hold 95 %.
    var within95 = 0

    mutating func add(_ other: Outcome) {
      fixes += other.fixes
      used += other.used
      errors = (errors + other.errors).sorted()
      within95 += other.within95
    }

    /// Metres below which such a share of the errors is.
    func error(_ share: Double) -> Double {
      errors.isEmpty ? 0 : errors[min(errors.count - 1, Int(Double(errors.count) * share))]
    }
  }

  /// - Parameter rest: seconds from the end of a run of updates to the next.
  static func run(_ trace: LocationTrace, rest: Double) throws -> Outcome {
    var policy = SamplingCycle.Policy()
    policy.rest = .seconds(rest)
    var cycle = try SamplingCycle(policy: policy)
    _ = try cycle.start(at: .zero)
    var outcome = Outcome(fixes: trace.fixes.count)
    var samples: [Fix] = []
    for fix in trace.fixes {
      _ = try cycle.advance(to: fix.time)
      guard cycle.isTracking else { continue }
      outcome.used += 1
      for case .sample(let sample) in try cycle.receive(fix, at: fix.time) { samples.append(sample) }
    }
    let history = try PathHistory(samples)
    for fix in trace.fixes {
      // Nothing is said of what comes after the last sample.
      guard let rebuilt = history.position(at: fix.time) else { continue }
      let error = Ellipsoid.distance(rebuilt.place, fix.position)
      outcome.errors.append(error)
      if error <= (try Accuracy(standardDeviation: rebuilt.deviation).radius(confidence: 0.95)) {
        outcome.within95 += 1
      }
    }
    outcome.errors.sort()
    return outcome
  }
}
