import ToolSupport

/// The run as JSON; times in microseconds.
package enum ReportJSON {
  package static func encode(_ report: BenchReport) throws -> String {
    try text(
      of: MeasuredRun(
        machine: report.machine, noise: Noise(report.noise), results: report.results.map(Row.init),
        notes: report.notes, interrupted: report.wasInterrupted, seconds: rounded(report.seconds)))
  }

  /// The form of every report of `opportune bench`.
  static func text(of document: some Encodable) throws -> String {
    try jsonText(of: document, snakeCase: true)
  }

  /// A run whose noise was watched.
  struct MeasuredRun<Row: Encodable>: Encodable {
    let machine: MachineReport
    let noise: Noise
    let results: [Row]
    let notes: [String]
    let interrupted: Bool
    let seconds: Double
  }

  struct Noise: Encodable {
    let slices: Int
    let slicesLeftOut: Int
    let invalidShare: Double
    let stolenShare: Double
    let otherProgramsShare: Double
    let canaryMax: Double
    let standstills: Int
    let standstillSeconds: Double
    let standstillMaxSeconds: Double
    let valid: Bool
  }

  fileprivate struct Row: Encodable {
    let scenario: String
    let contender: String
    let lockFree: String
    let latencyUs: Percentiles
    let latenessUs: Percentiles
    let intendedFinishUs: Percentiles
    let backgroundKept: Double?
    let backgroundKeptInterval: [Double]?
    let unfinished: Int
    let refused: Int
    let samples: Int
    let contextSwitchesPerS: Double
    let residentMib: Double
    let alone: Alone
    let limit: String
    let p99RatioToLimit: Double?
    let latestStarts: [LateStart]
  }

  fileprivate struct Alone: Encodable {
    let latencyUs: Percentiles
    let intendedFinishUs: Percentiles
    let samples: Int
  }
}

extension ReportJSON.Noise {
  init(_ noise: NoiseReport) {
    self.init(
      slices: noise.slices, slicesLeftOut: noise.slicesLeftOut, invalidShare: rounded(noise.invalidShare),
      stolenShare: rounded(noise.stolenShare), otherProgramsShare: rounded(noise.otherProgramsShare),
      canaryMax: rounded(noise.canaryMax), standstills: noise.standstills,
      standstillSeconds: rounded(noise.standstillSeconds),
      standstillMaxSeconds: rounded(noise.standstillMax), valid: noise.isValid)
  }
}

extension ReportJSON.Row {
  fileprivate init(_ row: ResultRow) {
    self.init(
      scenario: row.scenario, contender: row.contender, lockFree: row.lockFree,
      latencyUs: rounded(row.latency), latenessUs: rounded(row.lateness),
      intendedFinishUs: rounded(row.intendedFinish), backgroundKept: row.kept.map { rounded($0.value) },
      backgroundKeptInterval: row.kept.map { [rounded($0.low), rounded($0.high)] },
      unfinished: row.unfinished, refused: row.refused, samples: row.samples,
      contextSwitchesPerS: rounded(row.footprint.switchesPerSecond),
      residentMib: rounded(row.footprint.residentMebibytes),
      alone: .init(
        latencyUs: rounded(row.alone.latency), intendedFinishUs: rounded(row.alone.intendedFinish),
        samples: row.alone.samples),
      limit: row.limitName, p99RatioToLimit: row.ratioToLimit.map(rounded), latestStarts: row.latestStarts)
  }
}

/// Three decimals, which is a nanosecond where the unit is a microsecond.
func rounded(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }

func rounded(_ value: Percentiles) -> Percentiles {
  Percentiles(
    p50: rounded(value.p50), p90: rounded(value.p90), p99: rounded(value.p99), p999: rounded(value.p999),
    max: rounded(value.max))
}
