/// The outcome of a run of `opportune bench serve`.
package struct ServeReport: Sendable {
  package var machine: MachineReport
  package var noise: NoiseReport
  var tallies: [ServeTally]
  /// What a reader should know: the tree, the index, the limit of memory.
  package var notes: [String]
  package var wasInterrupted = false
  package var seconds = 0.0
  package var failure: BenchError?
  /// What it was a run of.
  var options: ServeOptions?

  /// One kind of request of one contender under one load. Times in microseconds.
  struct Row: Sendable {
    let tally: ServeTally
    let kind: ServeRequest.Kind
    let account: LatencyAccount
    /// With those that are left out.
    let whole: LatencyAccount
    let spending: ServeSpending

    var name: String { String(describing: kind) }
    /// Intended keystroke to answer.
    var latency: KnownPercentiles { KnownPercentiles(account.intendedFinish) }
    var latencyOfAll: KnownPercentiles { KnownPercentiles(whole.intendedFinish) }
    /// Of short requests in each repeat; nil of other kinds.
    var repeats: RepeatedPercentiles? {
      kind == .short ? RepeatedPercentiles(tally.shortOfRepeats) : nil
    }
    /// Requests that were under way while the device stood still, or intended while the host took the CPU.
    var leftOut: Int { whole.samples - account.samples }
  }

  /// In the order of the kinds, idle before full, contenders as they come.
  var rows: [Row] {
    ServePlan.Load.allCases.flatMap { load in
      ServeRequest.Kind.allCases.flatMap { kind in
        tallies.filter { $0.load == load }.compactMap { tally in
          tally.accounts[kind].map {
            Row(
              tally: tally, kind: kind, account: $0, whole: tally.whole[kind] ?? $0,
              spending: tally.spending[kind] ?? ServeSpending())
          }
        }
      }
    }
  }
}

extension ServeTally {
  /// Seconds that the server's counters are of.
  var seconds: Double { Double(count.time) / 1e9 }
  var documentsPerSecond: Double { seconds > 0 ? Double(count.documents) / seconds : 0 }
  var indexedMegabytesPerSecond: Double { seconds > 0 ? Double(count.indexedBytes) / 1e6 / seconds : 0 }
  var mergedMegabytes: Double { Double(count.mergedBytes) / 1e6 }
  var checkedMegabytes: Double { Double(count.checkedBytes) / 1e6 }
  /// Of the engine's background code, in all of the windows.
  var backgroundCPUSeconds: Double { Double(count.backgroundCPU) / 1e9 }
  var backgroundReadMegabytes: Double { Double(count.backgroundRead) / 1e6 }
  var backgroundWrittenMegabytes: Double { Double(count.backgroundWritten) / 1e6 }
  var backgroundMegabytes: Double { backgroundReadMegabytes + backgroundWrittenMegabytes }
  var residentMegabytes: Double { Double(resident) / 1e6 }
  /// Share of looks into the block cache that found the block.
  var hitShare: Double {
    let looks = count.cacheHits + count.cacheMisses
    return looks > 0 ? Double(count.cacheHits) / Double(looks) : 0
  }
  /// What background might have at the end of each repeat; empty without a target or a held level.
  var shares: [SchedulerStanding.Share] { standings.compactMap(\.share) }
  /// Who was in the real-time class, in the repeat with the least of it; nil where nobody was to be.
  var realTime: SchedulerStanding.Access? {
    let all = Set(standings.compactMap(\.realTime))
    return SchedulerStanding.Access.allCases.last(where: all.contains)
  }
  /// Of all kinds.
  var unanswered: Int { accounts.values.reduce(0) { $0 + $1.unfinished } }
  /// The generator's own: intended to sent.
  var lateness: KnownPercentiles {
    var all = TimeHistogram()
    for account in accounts.values { all.add(account.lateness) }
    return KnownPercentiles(all)
  }
}

extension ServeData {
  var summary: String {
    func mebibytes(_ bytes: Int) -> String { fixed(Double(bytes) / 1_048_576, 0) + " MiB" }
    return
      "the index has \(mebibytes(indexBytes)) in \(segments.count) segments, of which \(mebibytes(ServeOptions.cacheBytes)) may be in memory"
  }
}
