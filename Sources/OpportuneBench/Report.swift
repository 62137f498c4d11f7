/// The outcome of a run.
public struct BenchReport: Sendable {
  public var machine: MachineReport
  public var noise: NoiseReport
  public var results: [ResultRow]
  /// What a reader should know: skipped files, refusals.
  public var notes: [String]
  /// Ended by Ctrl-C: fewer repeats than asked for.
  public var wasInterrupted: Bool
  /// How long the run took.
  public var seconds: Double
}

/// One contender in one scenario. Times in microseconds.
public struct ResultRow: Sendable {
  public var scenario: String
  public var contender: String
  public var lockFree: String
  /// Submit to start.
  public var latency: Percentiles
  /// The load generator's own: intended start to submit.
  public var lateness: Percentiles
  /// Intended start to finish.
  public var intendedFinish: Percentiles
  /// Work done ÷ (work done alone × the CPU share that the foreground left).
  public var kept: KeptInterval?
  /// Interactive jobs that had not started at a window's end; they count with what they had waited.
  public var unfinished: Int
  public var refused: Int
  public var samples: Int
  public var footprint: Footprint
  /// The same foreground with nothing beside it.
  public var alone: AloneRow
  /// p99 ÷ p99 of the limit in the same run.
  public var limitName: String
  public var ratioToLimit: Double?
  public var indexing: IndexingRow?
  public var curve: [CurvePoint]
  public var timeline: [TimelinePoint]
}

/// A foreground with nothing beside it. Times in microseconds.
public struct AloneRow: Sendable, Equatable {
  public var latency: Percentiles
  public var intendedFinish: Percentiles
  public var samples: Int
}

/// How fast the tree was indexed.
public struct IndexingRow: Sendable, Equatable {
  /// Mebibytes a second, beside queries and alone.
  public var rate: Double
  public var rateAlone: Double
  /// Seconds for the whole tree at these rates.
  public var treeSeconds: Double
  public var treeSecondsAlone: Double
  /// Answers that a plain scan confirmed.
  public var answersChecked: Int
}

extension BenchReport {
  init(
    machine: MachineReport, noise: NoiseReport, tallies: [Tally], corpusBytes: Int?, notes: [String],
    wasInterrupted: Bool, seconds: Double
  ) {
    let measured = tallies.filter { $0.beside.samples > 0 }
    let rows = measured.map { tally in
      let limit = measured.first {
        $0.scenario == tally.scenario && $0.contender.name == tally.scenario.limitName
      }
      return ResultRow(tally, limit: limit, cores: machine.cores, corpusBytes: corpusBytes)
    }
    self.init(
      machine: machine, noise: noise, results: rows,
      notes: notes
        + rows.filter { $0.refused > 0 }.map {
          "\($0.contender) refused \($0.refused) jobs in \($0.scenario)"
        },
      wasInterrupted: wasInterrupted, seconds: seconds)
  }
}

extension ResultRow {
  init(_ tally: Tally, limit: Tally?, cores: Int, corpusBytes: Int?) {
    let latency = tally.beside.latency.percentiles
    let limitP99 = limit?.beside.latency.percentiles.p99 ?? 0
    self.init(
      scenario: tally.scenario.name, contender: tally.contender.name,
      lockFree: tally.contender.make().lockFreeNote, latency: latency,
      lateness: tally.beside.lateness.percentiles, intendedFinish: tally.beside.intendedFinish.percentiles,
      kept: BackgroundKept.interval(tally.pairs), unfinished: tally.beside.unfinished, refused: tally.refused,
      samples: tally.beside.samples, footprint: tally.footprint,
      alone: AloneRow(
        latency: tally.foregroundAlone.latency.percentiles,
        intendedFinish: tally.foregroundAlone.intendedFinish.percentiles,
        samples: tally.foregroundAlone.samples),
      limitName: tally.scenario.limitName, ratioToLimit: limitP99 > 0 ? latency.p99 / limitP99 : nil,
      indexing: tally.scenario.isSearch
        ? IndexingRow(tally.pairs, cores: cores, corpusBytes: corpusBytes ?? 0, checked: tally.answersChecked)
        : nil,
      curve: tally.beside.latency.curve, timeline: tally.timeline)
  }
}

extension IndexingRow {
  /// Nil where no pair of windows is complete.
  init?(_ pairs: [(beside: WindowUsage, alone: WindowUsage)], cores: Int, corpusBytes: Int, checked: Int) {
    func rate(_ usages: [WindowUsage]) -> Double {
      let seconds = usages.reduce(0) { $0 + $1.capacity } / 1e9 / Double(cores)
      return seconds > 0 ? usages.reduce(0) { $0 + $1.work } / 1_048_576 / seconds : 0
    }
    let beside = rate(pairs.map(\.beside))
    let alone = rate(pairs.map(\.alone))
    guard beside > 0, alone > 0 else { return nil }
    let mebibytes = Double(corpusBytes) / 1_048_576
    self.init(
      rate: beside, rateAlone: alone, treeSeconds: mebibytes / beside, treeSecondsAlone: mebibytes / alone,
      answersChecked: checked)
  }
}
