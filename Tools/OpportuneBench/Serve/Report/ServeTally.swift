import OpportuneBase

/// What one contender did under one load, over all repeats.
struct ServeTally: Sendable {
  let contender: String
  let load: ServePlan.Load
  var accounts: [ServeRequest.Kind: LatencyAccount] = [:]
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

  init(contender: String, load: ServePlan.Load) {
    self.contender = contender
    self.load = load
  }

  mutating func count(_ outcome: ServeOutcome, rule: NoiseRule, cores: Int, runStart: Nanoseconds) {
    let leftOut = rule.leftOut(outcome.slices, cores: cores)
    for kind in ServeRequest.Kind.allCases where kind != .statistics {
      let samples = outcome.samples.filter { $0.kind == kind && !outcome.isCaught($0) }
      guard !samples.isEmpty else { continue }
      let isLeftOut = { (time: Nanoseconds) in
        // Heavy requests on an idle machine come behind the window.
        time < outcome.measured.lowerBound || leftOut.contains { $0.contains(time) }
      }
      accounts[kind, default: LatencyAccount()].count(
        samples.map(\.times), windowEnd: outcome.end, isLeftOut: isLeftOut)
      spending[kind, default: ServeSpending()].count(samples.filter { !isLeftOut($0.intended) })
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
  /// queued up then it may have to wait for some.
  func isCaught(_ sample: ServeSample) -> Bool {
    let answered = sample.answered == 0 ? end : sample.answered
    return standstills.contains { sample.intended < $0.upperBound + 10_000_000 && answered > $0.lowerBound }
  }
}

extension ServeSample {
  /// As the accounts of all benches count: it has started when it is answered, as far as a client sees.
  var times: Sample { Sample(intended: intended, submitted: sent, started: answered, finished: answered) }
}

extension EngineCount {
  func adding(_ other: EngineCount) -> EngineCount { since(EngineCount().since(other)) }
}
