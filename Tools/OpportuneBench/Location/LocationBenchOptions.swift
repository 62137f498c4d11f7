/// What `opportune bench location` is to measure.
package struct LocationBenchOptions: Sendable {
  /// `sampling`, `history` and `reference` need recorded tracks, `exits` needs logs of phones; without them
  /// they measure nothing.
  package enum Figure: String, Sendable, CaseIterable {
    case fixes, geometry, sampling, history, exits, reference
  }

  package var figures: [Figure]
  /// Numbers of fences, each for a drive of its own.
  package var fences: [Int]
  /// Of each drive, one a second.
  package var fixes: Int
  /// Of each drive and each piece of geometry; medians are reported.
  package var repeats: Int
  /// Metres from the middle of a fence to its border.
  package var radius: Double
  /// ``MonitorPolicy/wander`` of the figure `sampling`.
  package var wander: Double?

  /// Of each recorded track: half of them on its way, half about it.
  package static let trackFences = 200
  /// Seconds of the sampler's patience, each with a run of its own.
  package static let patiences = [0.0, 5, 10, 15, 20, 30]
  /// Seconds of rest of an app's own sampling, each with a run of its own.
  package static let rests = [5.0, 10, 20, 30, 60, 120, 300]

  /// - Throws: ``BenchError`` that names the option, its value and what was expected.
  package init(
    figures: [String] = [], fences: [String] = ["1", "1000", "100000"], fixes: Int = 20_000, repeats: Int = 3,
    radius: Double = 100, wander: Double? = nil
  ) throws(BenchError) {
    self.figures = try BenchError.figures(figures)
    self.fences = []
    for text in fences {
      guard let count = Int(text), (1...1_000_000).contains(count) else {
        throw .invalid("--fences", text, expected: "whole numbers from 1 to 1000000, with commas between")
      }
      self.fences.append(count)
    }
    guard !self.fences.isEmpty else { throw .invalid("--fences", "", expected: "at least one number") }
    guard (10...10_000_000).contains(fixes) else {
      throw .invalid("--fixes", "\(fixes)", expected: "a whole number from 10 to 10000000")
    }
    guard (1...20).contains(repeats) else {
      throw .invalid("--repeats", "\(repeats)", expected: "a whole number from 1 to 20")
    }
    guard (1...100_000).contains(radius) else {
      throw .invalid("--radius", "\(radius)", expected: "metres from 1 to 100000")
    }
    self.fixes = fixes
    self.repeats = repeats
    if let wander, !(0...1000).contains(wander) {
      throw .invalid("--wander", "\(wander)", expected: "metres per root of a second from 0 to 1000")
    }
    self.radius = radius
    self.wander = wander
  }
}
