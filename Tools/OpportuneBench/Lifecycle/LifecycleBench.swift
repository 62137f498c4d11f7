import Opportune
import OpportuneBase

/// What `opportune bench lifecycle` is to measure.
package struct LifecycleBenchOptions: Sendable {
  package enum Figure: String, Sendable, CaseIterable { case moves, resumption, audio }

  package var figures: [Figure]
  /// Apps of the virtual machine.
  package var apps: Int
  /// Switches to time of each kind.
  package var switches: Int
  let audio: AudioBench
  let resumption: ResumptionBench

  /// - Parameters:
  ///   - frames: of audio, of each contender in each repeat.
  ///   - repeats: of the audio figure.
  /// - Throws: ``BenchError`` for the first value that is unknown or out of range.
  package init(
    figures: [String] = [], apps: Int = 10_000, switches: Int = 20_000, frames: Int = 500, repeats: Int = 3
  ) throws(BenchError) {
    self.figures = try BenchError.figures(figures)
    self.apps = try BenchError.check(apps, "--apps", 2...1_000_000)
    self.switches = try BenchError.check(switches, "--switches", 10...10_000_000)
    audio = try AudioBench(frames: frames, repeats: repeats)
    resumption = try ResumptionBench()
  }
}

/// The figures of the lifecycle, in one run.
package struct LifecycleBench: Bench {
  package let context: BenchContext<LifecycleBenchOptions>

  package init(_ context: BenchContext<LifecycleBenchOptions>) { self.context = context }

  package func run() async throws -> LifecycleBenchReport {
    var report = LifecycleBenchReport(machine: .current())
    for figure in options.figures where !isInterrupted() {
      progress("measuring \(figure.rawValue)")
      let rows =
        switch figure {
        case .moves: try await moves()
        case .resumption: try await resumptions()
        case .audio: try await audio()
        }
      report.results += rows.map {
        LifecycleResult(figure: figure.rawValue, mode: $0.mode, value: $0.value, unit: $0.unit)
      }
    }
    report.wasInterrupted = isInterrupted()
    return report
  }

  private typealias Row = (mode: String, value: Double, unit: String)

  // MARK: Moves

  private func moves() async throws -> [Row] {
    var rows: [Row] = [
      ("table decisions", decisions(), "per second"),
      ("virtual events, 4 apps", try virtualEvents(), "per minute"),
      ("virtual switch, \(options.apps) apps", try virtualSwitch(), "us"),
    ]
    for queued in [1, 10, 100, 1000, 10_000, 100_000] where !isInterrupted() {
      rows.append(("live change of band, \(queued) queued jobs", try await liveSwitch(queued), "us"))
    }
    return rows
  }

  private func decisions() -> Double {
    var (moves, count) = (0, 0)
    let start = SystemClock.now()
    for _ in 0..<2000 {
      for state in LifecycleState.allCases {
        for event in LifecycleEvent.allCases {
          if case .move = try? Lifecycle.decide(state, event, .backgroundAllowed) { moves += 1 }
          count += 1
        }
      }
    }
    return moves > 0 ? Double(count) / seconds(since: start) : 0
  }

  private func virtualEvents() throws -> Double {
    var host = try VirtualHost(keepsLog: false, hashesLog: false)
    let apps = (0..<4).map { host.register(Manifest(identifier: "app\($0)")) }
    let start = SystemClock.now()
    while host.events < options.switches * 10 {
      try host.post(.launch, apps[host.events % 4])
      try host.run(for: .seconds(2))
    }
    return Double(host.events) / seconds(since: start) * 60
  }

  private func virtualSwitch() throws -> Double {
    var host = try VirtualHost(keepsLog: false, hashesLog: false)
    let ids = (0..<options.apps).map { host.register(Manifest(identifier: "app\($0)")) }
    for id in ids { try host.post(.launch, id) }
    try host.run(for: .seconds(6))
    let start = SystemClock.now()
    // Each brings one app forward and sends another to background.
    for count in 0..<options.switches { try host.post(.bringForward, ids[count % options.apps]) }
    return seconds(since: start) / Double(options.switches) * 1e6
  }

  /// What a move of a live app costs in the scheduler: its jobs stay queued.
  private func liveSwitch(_ queued: Int) async throws -> Double {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "queued", band: .background)
    app.suspend()
    for _ in 0..<queued { try app.submit {} }
    let rounds = 1000
    let start = SystemClock.now()
    for _ in 0..<rounds {
      try app.setBand(.foreground)
      try app.setBand(.background)
    }
    let result = seconds(since: start) / Double(rounds * 2) * 1e6
    app.resume()
    try await scheduler.shutdown()
    return result
  }

  private func seconds(since start: Nanoseconds) -> Double {
    Double(elapsed(from: start, to: SystemClock.now())) / 1e9
  }

  // MARK: Resumption and audio

  /// From `bringForward` on, with jobs queued and completions held; the median and the best.
  private func resumptions() async throws -> [Row] {
    let samples = try await options.resumption.run(isInterrupted: isInterrupted)
    let parts: [(String, KeyPath<ResumptionBench.Sample, Double>)] = [
      ("may run", \.returned), ("first job", \.firstJob), ("last completion", \.lastCompletion),
    ]
    return parts.flatMap { name, path in
      let values = samples.map { $0[keyPath: path] }.sorted()
      guard let best = values.first else { return [] as [Row] }
      let what = "live resumption, 10000 queued, 64 held, to \(name)"
      return [("\(what), median", values[values.count / 2], "us"), ("\(what), best", best, "us")]
    }
  }

  /// Frames of audio every 10 ms, each of 1 ms of work.
  private func audio() async throws -> [Row] {
    try await options.audio.run(isInterrupted: isInterrupted).flatMap { row in
      if let refusal = row.refusal {
        progress("\(row.contender): \(refusal)")
        return [] as [Row]
      }
      let what = "\(row.contender), beside \(row.beside)"
      return [
        ("\(what), underruns", Double(row.underruns), "of \(row.frames)"),
        ("\(what), longest", row.longestMicroseconds, "us"),
      ]
    }
  }
}
