import Opportune
import OpportuneLocation
import OpportuneTraces

/// The figures on recorded data, as rows.
extension LocationBench {
  typealias Row = LocationBenchReport.Result

  /// Of each track, and of all together where there are several.
  func sampling(_ wasInterrupted: inout Bool) throws -> [Row] {
    let (count, patiences) = (LocationBenchOptions.trackFences, LocationBenchOptions.patiences)
    var together = patiences.map { _ in SamplingBench.Outcome() }
    var rows: [Row] = []
    for track in tracks {
      if isInterrupted() {
        wasInterrupted = true
        return rows
      }
      progress("\(track.name) among \(count) fences")
      let fences = try SamplingBench.fences(count, along: track.trace, radius: options.radius)
      let outcomes = try SamplingBench.run(
        track.trace, among: fences, patiences: patiences, wander: options.wander)
      for (index, outcome) in outcomes.enumerated() { together[index].add(outcome) }
      rows += self.rows(outcomes, of: track.name)
    }
    return tracks.count > 1 ? rows + self.rows(together, of: "\(tracks.count) tracks") : rows
  }

  private func rows(_ outcomes: [SamplingBench.Outcome], of track: String) -> [Row] {
    func row(_ name: String, _ value: Double, _ unit: Row.Unit) -> Row {
      .init(name, fences: LocationBenchOptions.trackFences, track: track, value, unit)
    }
    var rows: [Row] = []
    for (patience, outcome) in zip(LocationBenchOptions.patiences, outcomes) {
      func percent(_ fixes: Int) -> Double { 100 * Double(fixes) / Double(outcome.fixes) }
      if rows.isEmpty {
        rows += [
          row("fixes", Double(outcome.fixes), .count),
          row("crossings with every fix", Double(outcome.crossings), .count),
          row("the fewest that see each stay, chosen afterwards", percent(outcome.fewest), .percent),
        ]
      }
      let name = "patience \(Int(patience)) s, "
      rows += [
        row(name + "fixes used", percent(outcome.used), .percent),
        row(name + "missed", Double(outcome.missed), .count),
        row(name + "told only then", Double(outcome.extra), .count),
        row(name + "told only then, and untrue", Double(outcome.untrue), .count),
        row(name + "delay, median", median(outcome.delays), .seconds),
        row(name + "delay, longest", outcome.delays.last ?? 0, .seconds),
      ]
    }
    return rows
  }

  /// Of each track, and of all together where there are several.
  func history(_ wasInterrupted: inout Bool) throws -> [Row] {
    let rests = LocationBenchOptions.rests
    var together = rests.map { _ in HistoryBench.Outcome() }
    var rows: [Row] = []
    for track in tracks {
      if isInterrupted() {
        wasInterrupted = true
        return rows
      }
      progress("\(track.name) rebuilt from samples")
      let outcomes = try rests.map { try HistoryBench.run(track.trace, rest: $0) }
      for (index, outcome) in outcomes.enumerated() { together[index].add(outcome) }
      rows += self.rows(outcomes, of: track.name)
    }
    return tracks.count > 1 ? rows + self.rows(together, of: "\(tracks.count) tracks") : rows
  }

  private func rows(_ outcomes: [HistoryBench.Outcome], of track: String) -> [Row] {
    zip(LocationBenchOptions.rests, outcomes).flatMap { rest, outcome in
      let name = "rest \(Int(rest)) s, "
      func percent(_ count: Int, of all: Int) -> Double { 100 * Double(count) / Double(max(1, all)) }
      return [
        Row(name + "fixes used", track: track, percent(outcome.used, of: outcome.fixes), .percent),
        Row(name + "error of the rebuilt way, median", track: track, outcome.error(0.5), .metres),
        Row(name + "error of the rebuilt way, of 95 %", track: track, outcome.error(0.95), .metres),
        Row(
          name + "within the radius stated for 95 %", track: track,
          percent(outcome.within95, of: outcome.errors.count), .percent),
      ]
    }
  }

  func exits() throws -> [Row] {
    try Set(logs.map(\.platform)).sorted().flatMap { platform in
      let logs = logs.filter { $0.platform == platform }
      let outcome = try ExitsBench.run(logs)
      func row(_ name: String, _ value: Double, _ unit: Row.Unit = .count) -> Row {
        .init(name, track: platform, value, unit)
      }
      let exits = logs.reduce(0) { $0 + $1.exits.count }
      var rows = [
        row("exits recorded", Double(outcome.recorded)), row("exits, those told again merged", Double(exits)),
      ]
      rows += ExitsBench.Verdict.allCases.map { row($0.rawValue, Double(outcome.verdicts[$0] ?? 0)) }
      rows += ExitsBench.Cause.allCases.compactMap { cause in
        outcome.causes[cause].map { row("late or missed since \(cause.rawValue)", Double($0)) }
      }
      return rows + [
        row("false exits of ours", Double(outcome.wrong)),
        row("from the first fix to ours, median", median(outcome.lateness), .seconds),
        row("from the first fix to ours, longest", outcome.lateness.last ?? 0, .seconds),
        row("from ours to the phone's, where ours came before, median", median(outcome.earliness), .seconds),
      ]
    }
  }

  func referenced(_ track: RecordedTrack, by reference: RecordedTrack) throws -> [Row] {
    let count = LocationBenchOptions.trackFences
    let fences = try SamplingBench.fences(count, along: track.trace, radius: options.radius)
    let outcome = try ReferenceBench.run(track.trace, reference: reference.trace, among: fences)
    func row(_ name: String, _ value: Double, _ unit: Row.Unit = .count) -> Row {
      .init(name, fences: count, track: track.name, value, unit)
    }
    let grazing = Int(ReferenceBench.grazing)
    return [
      row("crossings of the reference", Double(outcome.crossings)),
      row("crossings told", Double(outcome.told)),
      row("missed", Double(outcome.missed)),
      row("missed, of stays deeper than \(grazing) m", Double(outcome.missedDeep)),
      row("false", Double(outcome.wrong)),
      row("delay, median", median(outcome.delays), .seconds),
      row("delay, longest", outcome.delays.last ?? 0, .seconds),
      row("error of a fix, median", median(outcome.errors), .metres),
      row("error of a fix, largest", outcome.errors.last ?? 0, .metres),
      row("fixes within their radius of 68 %", 100 * outcome.within68, .percent),
    ]
  }
}
