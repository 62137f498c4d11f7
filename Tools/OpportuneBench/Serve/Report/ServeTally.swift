import OpportuneBase

/// What one contender did under one load, over all repeats.
struct ServeTally: Sendable {
  let contender: String
  let load: ServePlan.Load
  var accounts: [ServeRequest.Kind: LatencyAccount] = [:]
  /// With those that are left out of ``accounts``.
  var whole: [ServeRequest.Kind: LatencyAccount] = [:]
  /// Short requests of each repeat apart, as in ``accounts``.
  var shortOfRepeats: [TimeHistogram] = []
  var spending: [ServeRequest.Kind: ServeSpending] = [:]
  var count = EngineCount()
  var resident: UInt64 = 0
  /// Of heavy requests: microseconds until the thread was seen at a lower priority, of those that it was.
  var lowered: [Double] = []
  var timeline: [TimelinePoint] = []
  var heavy: [ChartSeries.Span] = []
  /// Whether the generator was in a real-time class, in every repeat.
  var isRealTime = true
  /// What the server's scheduler said at the end of each repeat; empty where it has none.
  var standings: [SchedulerStanding] = []

  mutating func count(_ outcome: ServeOutcome, rule: NoiseRule, cores: Int, runStart: Nanoseconds) {
    let leftOut = rule.leftOut(outcome.slices, cores: cores)
    for kind in ServeRequest.Kind.allCases where kind != .statistics {
      // Heavy requests on an idle machine come behind the window.
      let measured = outcome.samples.filter { $0.kind == kind && $0.intended >= outcome.measured.lowerBound }
      guard !measured.isEmpty else { continue }
      let counted = measured.filter { sample in
        // No disturbance excuses an answer that never came.
        sample.answered == 0
          || !outcome.isCaught(sample) && !leftOut.contains { $0.contains(sample.intended) }
      }
      whole[kind, default: LatencyAccount()].count(measured.map(\.times), windowEnd: outcome.end)
      var account = LatencyAccount()
      account.count(counted.map(\.times), windowEnd: outcome.end)
      accounts[kind, default: LatencyAccount()].add(account)
      if kind == .short { shortOfRepeats.append(account.intendedFinish) }
      spending[kind, default: ServeSpending()].count(counted)
    }
    count = count.adding(outcome.count)
    resident = max(resident, outcome.resident)
    isRealTime = isRealTime && outcome.isRealTime
    if let standing = outcome.standing { standings.append(standing) }
    func second(_ time: Nanoseconds) -> Double { Double(elapsed(from: runStart, to: time)) / 1e9 }
    for sample in outcome.samples where sample.kind == .heavy {
      let lowered = sample.loweredAfter > 0 ? Double(sample.loweredAfter) : nil
      if let lowered { self.lowered.append(lowered) }
      heavy.append(
        ChartSeries.Span(
          start: second(sample.sent), end: second(sample.answered == 0 ? outcome.end : sample.answered),
          mark: lowered.map { second(sample.sent) + $0 / 1e6 }))
    }
    let short = outcome.samples.filter { $0.kind == .short }.map { sample in
      let end = sample.answered == 0 ? outcome.end : sample.answered
      return (intended: sample.intended, latency: elapsed(from: sample.intended, to: end))
    }
    timeline += rule.timeline(short, in: outcome.slices, cores: cores, runStart: runStart)
  }

  /// The curve of short queries, and all that is drawn over time.
  var series: ChartSeries {
    ChartSeries(
      contender: contender, curve: accounts[.short]?.intendedFinish.curve ?? [], timeline: timeline,
      spans: heavy)
  }
}

extension ServeOutcome {
  /// Whether the device stood still while the request was under way, or just before it came: of those that
  /// queued up then it may have to wait for some. One that was never answered is the server's own fault.
  func isCaught(_ sample: ServeSample) -> Bool {
    guard sample.answered != 0 else { return false }
    return standstills.contains {
      sample.intended < $0.upperBound + 10_000_000 && sample.answered > $0.lowerBound
    }
  }
}

extension ServeSample {
  /// As the accounts of all benches count: it has started when it is answered, as far as a client sees.
  var times: Sample { Sample(intended: intended, submitted: sent, started: answered, finished: answered) }
}

extension EngineCount {
  func adding(_ other: EngineCount) -> EngineCount { since(EngineCount().since(other)) }
}
