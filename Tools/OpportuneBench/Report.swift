/// The outcome of a run.
package struct BenchReport: Sendable {
  package var machine: MachineReport
  package var noise: NoiseReport
  package var results: [ResultRow]
  /// What a reader should know: refusals.
  package var notes: [String]
  /// Ended by Ctrl-C: fewer repeats than asked for.
  package var wasInterrupted: Bool
  /// How long the run took.
  package var seconds: Double
}

/// One contender in one scenario. Times in microseconds.
package struct ResultRow: Sendable {
  package var scenario: String
  package var contender: String
  package var lockFree: String
  /// Submit to start.
  package var latency: Percentiles
  /// The load generator's own: intended start to submit.
  package var lateness: Percentiles
  /// Intended start to finish.
  package var intendedFinish: Percentiles
  /// Work done ÷ (work done alone × the CPU share that the foreground left).
  package var kept: KeptInterval?
  /// Interactive jobs that had not started at a window's end; they count with what they had waited.
  package var unfinished: Int
  package var refused: Int
  package var samples: Int
  package var footprint: Footprint
  /// The same foreground with nothing beside it.
  package var alone: AloneRow
  /// p99 ÷ p99 of the limit in the same run.
  package var limitName: String
  package var ratioToLimit: Double?
  package var curve: [CurvePoint]
  package var timeline: [TimelinePoint]
  /// The latest hundredth of those that have started.
  package var latestStarts: [LateStart]
}

extension ResultRow {
  var series: ChartSeries { ChartSeries(contender: contender, curve: curve, timeline: timeline) }
}

/// A foreground with nothing beside it. Times in microseconds.
package struct AloneRow: Sendable, Equatable {
  package var latency: Percentiles
  package var intendedFinish: Percentiles
  package var samples: Int
}

extension BenchReport {
  init(
    machine: MachineReport, noise: NoiseReport, tallies: [Tally], wasInterrupted: Bool, seconds: Double
  ) {
    let measured = tallies.filter { $0.beside.samples > 0 }
    let rows = measured.map { tally in
      let limit = measured.first {
        $0.scenario == tally.scenario && $0.contender.name == tally.scenario.limitName
      }
      return ResultRow(tally, limit: limit, cores: machine.cores)
    }
    self.init(
      machine: machine, noise: noise, results: rows,
      notes: rows.filter { $0.refused > 0 }.map {
        "\($0.contender) refused \($0.refused) jobs in \($0.scenario)"
      },
      wasInterrupted: wasInterrupted, seconds: seconds)
  }
}

extension ResultRow {
  init(_ tally: Tally, limit: Tally?, cores: Int) {
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
      curve: tally.beside.latency.curve, timeline: tally.timeline, latestStarts: tally.latestStarts)
  }
}
