import ArgumentParser
import Glibc
import Opportune
import OpportuneBench

/// The cost of the lifecycle: the table, virtual time, and live switches beside queued jobs.
struct BenchLifecycleCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "lifecycle", abstract: "What moves of the lifecycle cost, in virtual time and live.",
    discussion: """
      The audio figure takes some two minutes: so many frames in real time, of five contenders, so often. Ctrl-C ends the \
      run with what it has.
      """)

  @Option(help: "Apps of the virtual machine.") var apps = 10_000
  @Option(help: "Switches to time of each kind.") var switches = 20_000
  @Option(
    help:
      "Figures, separated by commas or repeated: \(Figure.allCases.map(\.rawValue).joined(separator: ", ")). (default: all)"
  )
  var figure: [String] = []
  @Option(help: "Frames of audio of each contender in each repeat.") var frames = 500
  @Option(help: "Repeats of the audio figure, in which its contenders take turns.") var repeats = 3
  @Flag(help: "Print JSON.") var json = false

  private typealias Row = (name: String, value: Double, unit: String)
  private enum Figure: String, CaseIterable { case moves, resumption, audio }

  func validate() throws {
    guard (2...1_000_000).contains(apps) else { throw ValidationError("--apps is \(apps), expected 2 to 1000000") }
    guard (10...10_000_000).contains(switches) else {
      throw ValidationError("--switches is \(switches), expected 10 to 10000000")
    }
    _ = try figures()
    do { _ = try AudioBench(frames: frames, repeats: repeats) } catch { throw ValidationError(error.description) }
  }

  private func figures() throws -> [Figure] {
    let chosen = try names(figure).map { name in
      guard let figure = Figure(rawValue: name) else {
        let known = Figure.allCases.map(\.rawValue).joined(separator: ", ")
        throw ValidationError("--figure '\(name)' is not valid: expected \(known)")
      }
      return figure
    }
    return chosen.isEmpty ? Figure.allCases : chosen
  }

  private func moves() async throws -> [Row] {
    var rows: [Row] = []
    rows.append(("table decisions", try decisions(), "per second"))
    rows.append(("virtual events, 4 apps", try virtualEvents(), "per minute"))
    rows.append(("virtual switch, \(apps) apps", try virtualSwitch(), "us"))
    for queued in [1, 10, 100, 1000, 10_000, 100_000] {
      rows.append(("live band and suspension change, \(queued) queued jobs", try await liveSwitch(queued), "us"))
    }
    return rows
  }

  mutating func run() async throws {
    interceptInterrupts()
    var rows: [Row] = []
    for figure in try figures() where !wasInterrupted() {
      printToStandardError("measuring \(figure.rawValue)")
      switch figure {
      case .moves: rows += try await moves()
      case .resumption: rows += try await resumptions()
      case .audio: rows += try await audio()
      }
    }
    if json {
      let entries = rows.map { "  {\"name\":\"\($0.name)\",\"value\":\(short($0.value)),\"unit\":\"\($0.unit)\"}" }
      print("[\n\(entries.joined(separator: ",\n"))\n]")
    } else {
      let width = (rows.map(\.name.count).max() ?? 0) + 2
      for row in rows {
        print(
          "\(row.name)\(String(repeating: " ", count: max(1, width - row.name.count)))\(short(row.value)) \(row.unit)")
      }
    }
  }

  private func decisions() throws -> Double {
    var moves = 0
    let start = nanoseconds()
    for _ in 0..<2000 {
      for state in LifecycleState.allCases {
        for event in LifecycleEvent.allCases {
          if case .move = try? Lifecycle.decide(state, event, .backgroundAllowed) { moves += 1 }
        }
      }
    }
    let count = 2000 * LifecycleState.allCases.count * LifecycleEvent.allCases.count
    return moves > 0 ? Double(count) / seconds(since: start) : 0
  }

  private func virtualEvents() throws -> Double {
    var host = try VirtualHost(keepsLog: false, hashesLog: false)
    let apps = (0..<4).map { host.register(Manifest(identifier: "app\($0)")) }
    let start = nanoseconds()
    while host.events < switches * 10 {
      try host.post(.launch, apps[host.events % 4])
      try host.run(for: .seconds(2))
    }
    return Double(host.events) / seconds(since: start) * 60
  }

  private func virtualSwitch() throws -> Double {
    var host = try VirtualHost(keepsLog: false, hashesLog: false)
    let ids = (0..<apps).map { host.register(Manifest(identifier: "app\($0)")) }
    for id in ids { try host.post(.launch, id) }
    try host.run(for: .seconds(6))
    let start = nanoseconds()
    // Each brings one app forward and sends another to background.
    for count in 0..<switches { try host.post(.bringForward, ids[count % apps]) }
    return seconds(since: start) / Double(switches) * 1e6
  }

  /// What a move of a live app costs in the scheduler: suspend, change the band, resume; the jobs stay queued.
  private func liveSwitch(_ queued: Int) async throws -> Double {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "queued", band: .background)
    app.suspend()
    for _ in 0..<queued { try app.submit {} }
    let rounds = 1000
    let start = nanoseconds()
    for _ in 0..<rounds {
      try app.setBand(.foreground)
      try app.setBand(.background)
    }
    let result = seconds(since: start) / Double(rounds * 2) * 1e6
    app.resume()
    try await scheduler.shutdown()
    return result
  }

  /// From `bringForward` on, with jobs queued and completions held; the median and the best.
  private func resumptions() async throws -> [Row] {
    let samples = try await ResumptionBench().run(isInterrupted: wasInterrupted)
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
    try await AudioBench(frames: frames, repeats: repeats).run(isInterrupted: wasInterrupted).flatMap { row in
      if let refusal = row.refusal {
        printToStandardError("\(row.contender): \(refusal)")
        return [] as [Row]
      }
      let what = "audio, \(row.contender), beside \(row.beside)"
      return [
        ("\(what), underruns", Double(row.underruns), "of \(row.frames)"),
        ("\(what), longest", row.longestMicroseconds, "us"),
      ]
    }
  }

  private func nanoseconds() -> UInt64 { monotonicNanoseconds() }
  private func seconds(since start: UInt64) -> Double { Double(nanoseconds() - start) / 1e9 }
  private func short(_ value: Double) -> String { value >= 1000 ? "\(Int(value))" : "\((value * 100).rounded() / 100)" }
}

private func monotonicNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
