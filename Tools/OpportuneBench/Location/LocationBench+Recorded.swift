import Opportune
import OpportuneLocation
import OpportuneTraces

/// The figures on recorded data, as rows.
extension LocationBench {
  typealias Row = LocationBenchReport.Result

  func sampling(_ wasInterrupted: inout Bool) throws -> [Row] {
    let (count, patiences) = (LocationBenchOptions.trackFences, LocationBenchOptions.patiences)
    return try ofTracks("among \(count) fences", &wasInterrupted, rows) { trace in
      let fences = try SamplingBench.fences(count, along: trace, radius: options.radius)
      return try SamplingBench.run(trace, among: fences, patiences: patiences, wander: options.wander)
    }
  }

  /// Of each track, and of all together where there are several.
  private func ofTracks<Outcome: TrackOutcome>(
    _ what: String, _ wasInterrupted: inout Bool, _ rows: ([Outcome], _ track: String) -> [Row],
    _ run: (LocationTrace) throws -> [Outcome]
  ) rethrows -> [Row] {
    var (result, together): ([Row], [Outcome]) = ([], [])
    for track in tracks {
      if isInterrupted() {
        wasInterrupted = true
        return result
      }
      progress("\(track.name) \(what)")
      let outcomes = try run(track.trace)
      if together.isEmpty { together = outcomes.map { _ in Outcome() } }
      for (index, outcome) in outcomes.enumerated() { together[index].add(outcome) }
      result += rows(outcomes, track.name)
    }
    return tracks.count > 1 ? result + rows(together, "\(tracks.count) tracks") : result
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

  func history(_ wasInterrupted: inout Bool) throws -> [Row] {
    try ofTracks("rebuilt from samples", &wasInterrupted, rows) { trace in
      try LocationBenchOptions.rests.map { try HistoryBench.run(trace, rest: $0) }
    }
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

/// What was found on a track, which can be added up.
protocol TrackOutcome {
  init()
  mutating func add(_ other: Self)
}
