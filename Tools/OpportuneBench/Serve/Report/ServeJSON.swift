/// A run of `opportune bench serve` as JSON; times in microseconds.
package enum ServeJSON {
  package static func encode(_ report: ServeReport) throws -> String {
    try ReportJSON.text(
      of: Run(
        options: report.options,
        measured: ReportJSON.MeasuredRun(
          machine: report.machine, noise: ReportJSON.Noise(report.noise), results: report.rows.map(Row.init),
          notes: report.notes, interrupted: report.wasInterrupted, seconds: rounded(report.seconds))))
  }

  /// A run, and what it was of, so that it can be made again.
  private struct Run: Encodable {
    let options: ServeOptions?
    let measured: ReportJSON.MeasuredRun<Row>

    private enum CodingKeys: CodingKey {
      case version, options
    }

    func encode(to encoder: any Encoder) throws {
      try measured.encode(to: encoder)
      var values = encoder.container(keyedBy: CodingKeys.self)
      try values.encodeIfPresent(options?.version, forKey: .version)
      try values.encodeIfPresent(options.map(Options.init), forKey: .options)
    }
  }

  private struct Options: Encodable {
    let contenders: [String]
    let loads: [String]
    let seconds: Double
    let repeats: Int
    let connections: Int
    let heavy: Int
    let files: FileAccess
    let sockets: ServeAddress.Kind
    let serverMebibytes: Int
    let trees: [String]
    let folder: String
    let nioRival: String?

    init(_ options: ServeOptions) {
      contenders = options.contenders.map(\.name)
      loads = options.loads.map(\.rawValue)
      (seconds, repeats) = (options.seconds, options.repeats)
      (connections, heavy, files) = (options.connections, options.heavy, options.files)
      (sockets, serverMebibytes) = (options.sockets, options.serverMebibytes)
      (trees, folder, nioRival) = (options.trees, options.folder, options.nioRival)
    }
  }

  fileprivate struct Row: Encodable {
    let contender: String
    let load: String
    let request: String
    let latencyUs: KnownPercentiles
    /// With those that are left out of it, and how many those are.
    let withLeftOutUs: KnownPercentiles
    let leftOut: Int
    /// The values of each repeat, of short requests alone.
    let repeatsUs: RepeatedPercentiles?
    /// Means of all that were answered, and of the latest hundredth; left out where those are too few.
    let spentUs: [String: Double]
    let latestSpentUs: [String: Double]?
    let requests: Int
    let unanswered: Int
    let sentLateUs: KnownPercentiles
    let refused: UInt64
    let backgroundCpuS: Double
    let backgroundReadMb: Double
    let backgroundWrittenMb: Double
    let documentsPerS: Double
    let indexedMbPerS: Double
    let merges: UInt64
    let mergedMb: Double
    let checkedMb: Double
    let cacheHitShare: Double
    let cacheWaits: UInt64
    /// The median, of heavy requests whose thread was seen at a lower priority.
    let loweredAfterUs: Double?
    let residentMb: Double
    /// At the end of each repeat; left out without a target or a held level.
    let backgroundShare: [Share]?
    /// Who was in the real-time class; left out where nobody was to be.
    let realTime: SchedulerStanding.Access?
  }

  fileprivate struct Share: Encodable {
    let workers: UInt64
    let deviceEighths: UInt64
    let cuts: UInt64
    let raises: UInt64

    init(_ share: SchedulerStanding.Share) {
      (workers, deviceEighths, cuts, raises) = (share.workers, share.eighths, share.cuts, share.raises)
    }
  }
}

extension ServeJSON.Row {
  fileprivate init(_ row: ServeReport.Row) {
    let tally = row.tally
    self.init(
      contender: tally.contender, load: tally.load.rawValue, request: row.name, latencyUs: row.latency,
      withLeftOutUs: row.latencyOfAll, leftOut: row.leftOut, repeatsUs: row.repeats,
      spentUs: row.spending.all.named,
      latestSpentUs: row.spending.late.requests > 0 ? row.spending.late.named : nil,
      requests: row.account.samples, unanswered: row.account.unfinished,
      sentLateUs: KnownPercentiles(row.account.lateness), refused: tally.count.refused,
      backgroundCpuS: rounded(tally.backgroundCPUSeconds),
      backgroundReadMb: rounded(tally.backgroundReadMegabytes),
      backgroundWrittenMb: rounded(tally.backgroundWrittenMegabytes),
      documentsPerS: rounded(tally.documentsPerSecond),
      indexedMbPerS: rounded(tally.indexedMegabytesPerSecond), merges: tally.count.merges,
      mergedMb: rounded(tally.mergedMegabytes), checkedMb: rounded(tally.checkedMegabytes),
      cacheHitShare: rounded(tally.hitShare), cacheWaits: tally.count.cacheWaits,
      loweredAfterUs: row.kind == .heavy && !tally.lowered.isEmpty ? rounded(median(tally.lowered)) : nil,
      residentMb: rounded(tally.residentMegabytes),
      backgroundShare: tally.shares.isEmpty ? nil : tally.shares.map(ServeJSON.Share.init),
      realTime: tally.realTime)
  }
}

extension ServeTimeSpent {
  /// Each part by its name.
  fileprivate var named: [String: Double] {
    Dictionary(uniqueKeysWithValues: Part.allCases.map { ($0.name, rounded(self[$0])) })
  }
}
