import FoundationEssentials

/// The run as JSON; times in microseconds.
public enum ReportJSON {
  public static func encode(_ report: BenchReport) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(Document(report)), as: UTF8.self) + "\n"
  }

  private struct Document: Encodable {
    let machine: MachineReport
    let noise: Noise
    let results: [Row]
    let notes: [String]
    let interrupted: Bool
    let seconds: Double

    init(_ report: BenchReport) {
      machine = report.machine
      noise = Noise(report.noise)
      results = report.results.map(Row.init)
      notes = report.notes
      interrupted = report.wasInterrupted
      seconds = rounded(report.seconds)
    }
  }

  private struct Noise: Encodable {
    let slices: Int
    let slices_left_out: Int
    let invalid_share: Double
    let stolen_share: Double
    let other_programs_share: Double
    let canary_max: Double
    let valid: Bool

    init(_ noise: NoiseReport) {
      slices = noise.slices
      slices_left_out = noise.slicesLeftOut
      invalid_share = rounded(noise.invalidShare)
      stolen_share = rounded(noise.stolenShare)
      other_programs_share = rounded(noise.otherProgramsShare)
      canary_max = rounded(noise.canaryMax)
      valid = noise.isValid
    }
  }

  private struct Row: Encodable {
    let scenario: String
    let contender: String
    let lock_free: String
    let latency_us: Percentiles
    let lateness_us: Percentiles
    let intended_finish_us: Percentiles
    let background_kept: Double?
    let background_kept_interval: [Double]?
    let unfinished: Int
    let refused: Int
    let samples: Int
    let alone: Alone
    let limit: String
    let p99_ratio_to_limit: Double?
    let indexing: Indexing?

    init(_ row: ResultRow) {
      scenario = row.scenario
      contender = row.contender
      lock_free = row.lockFree
      latency_us = rounded(row.latency)
      lateness_us = rounded(row.lateness)
      intended_finish_us = rounded(row.intendedFinish)
      background_kept = row.kept.map { rounded($0.value) }
      background_kept_interval = row.kept.map { [rounded($0.low), rounded($0.high)] }
      unfinished = row.unfinished
      refused = row.refused
      samples = row.samples
      alone = Alone(
        latency_us: rounded(row.alone.latency), intended_finish_us: rounded(row.alone.intendedFinish),
        samples: row.alone.samples)
      limit = row.limitName
      p99_ratio_to_limit = row.ratioToLimit.map(rounded)
      indexing = row.indexing.map {
        Indexing(
          mib_per_s: rounded($0.rate), mib_per_s_alone: rounded($0.rateAlone),
          tree_s: rounded($0.treeSeconds),
          tree_s_alone: rounded($0.treeSecondsAlone), answers_checked: $0.answersChecked)
      }
    }
  }

  private struct Alone: Encodable {
    let latency_us: Percentiles
    let intended_finish_us: Percentiles
    let samples: Int
  }

  private struct Indexing: Encodable {
    let mib_per_s: Double
    let mib_per_s_alone: Double
    let tree_s: Double
    let tree_s_alone: Double
    let answers_checked: Int
  }
}

/// Three decimals, which is a nanosecond where the unit is a microsecond.
private func rounded(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }

private func rounded(_ value: Percentiles) -> Percentiles {
  Percentiles(
    p50: rounded(value.p50), p90: rounded(value.p90), p99: rounded(value.p99), p999: rounded(value.p999),
    max: rounded(value.max))
}
