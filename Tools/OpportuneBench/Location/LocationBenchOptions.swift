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
    self.fixes = try BenchError.check(fixes, "--fixes", 10...10_000_000)
    self.repeats = try BenchError.check(repeats, "--repeats", 1...20)
    self.radius = try BenchError.check(radius, "--radius", 1...100_000, "metres")
    if let wander { try BenchError.check(wander, "--wander", 0...1000, "metres per root of a second") }
    self.wander = wander
  }
}
