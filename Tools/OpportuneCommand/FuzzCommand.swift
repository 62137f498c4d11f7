import ArgumentParser
import Glibc
import OpportuneFuzz
import OpportuneProperties
import ToolSupport

struct FuzzCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "fuzz",
    abstract: "Searches for schedules, operations and documents that break what is promised.",
    discussion: """
      The queues: random programs of a few threads run under chosen schedules, with memory as weak as the language \
      allows and threads stopped for ever; a judge compares what came out with what the headers promise. The layers \
      above: random operations against a model, and documents made, or changed, for each parser; a trap is a failure \
      like another. A failure is made smaller and printed as a timeline, with what replays it; the other targets go on.

      Each run first finds the bugs that are planted in the canaries, so that finding nothing says something.

      The status is 0 where nothing was found, 1 where something was, 2 where a planted bug was not found, memory is short, \
      or a file cannot be read, 64 where an option is wrong, 74 where something cannot be written, and 130 after Ctrl-C.

      Examples:
        opportune fuzz                                   every target for 10 seconds
        opportune fuzz --target runq,parking --time 600  two of them for ten minutes each
        opportune fuzz --target canary                   what a failure looks like

      Ctrl-C ends the run with what it has.
      """)

  @Flag(help: "Say what the targets are, and what holds of them.") var list = false
  @Option(help: "Only these targets, separated by commas or repeated. (default: all but the canaries)")
  var target: [String] = []
  @Option(name: [.long, .customLong("seconds")], help: "Seconds for each target.") var time: Double = 10
  @Option(help: "Number that the random choices follow from. (default: drawn, and printed)") var seed: UInt64?
  @Option(
    help:
      "Run this example again instead, print its timeline, and say whether it fails or no longer fits the code.",
    completion: .file())
  var replay: String?
  @Option(
    help: "Threads that fuzz, each its own schedules; as many at once as are asked for. (default: one a core)"
  )
  var threads: Int?
  @Option(
    help:
      "Write the example of a failure to this file, those of more targets beside it. (default: opportune-fuzz-TARGET-SEED.example here, or in /tmp)",
    completion: .file())
  var output: String?
  @Flag(
    help: "Print JSON, and nothing else, to standard output; of a list and of an example run again as well.")
  var json = false

  func validate() throws {
    if !(time > 0 && time <= 31_536_000) {
      throw ValidationError(
        "--time \(time) is out of range: expected more than 0 and at most 31536000 seconds")
    }
    if let threads, !(1...1024).contains(threads) {
      throw ValidationError("--threads \(threads) is out of range: expected 1 to 1024")
    }
    _ = try targets()
  }

  func run() throws {
    do {
      try search()
    } catch let error as any Error & CustomStringConvertible where error is Failure || error is FuzzError {
      // Not 1, which says that something was found.
      printToStandardError("Error: \(error.description)")
      throw ExitCode(2)
    }
  }

  /// What it does; throws the status, or why it can do nothing.
  func search() throws {
    if list { return try StandardOutput.write(try listing(), as: json ? .json : .text) }
    if let replay { return try run(example: replay) }
    if let lack = lack(of: try targets()) { printToStandardError(lack) }
    // A failure may take hours to find.
    if let output { try checkWritable(output) }
    interceptInterrupts()
    let isTerminal = isatty(STDERR_FILENO) == 1
    let seed = seed ?? UInt64.random(in: 1...UInt64(UInt32.max))
    var run = FuzzRun(
      targets: try targets(), seconds: time, seed: seed,
      threads: threads ?? max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))),
      isInterrupted: wasInterrupted)
    if isTerminal { run.progress = { writeToStandardError("\r\u{1B}[K" + line($0), as: .styled) } }
    let keeper = FindingKeeper(seed: seed, output: output)
    run.found = { finding in
      keeper.keep(finding)
      let kept =
        keeper.path(of: finding.target).map { "kept in \($0)" }
        ?? "no file to keep it in:\n\(finding.example)"
      writeToStandardError(
        "\n\(finding.target): \(finding.message)\n\(kept)\nIt is made smaller now, for 20 s at most.\n")
    }
    writeToStandardError("seed \(seed)\n")
    let selfCheck = try checkSelf(seed: seed)
    var report = try run.run()
    report.selfCheck = selfCheck
    if isTerminal { writeToStandardError("\r\u{1B}[K", as: .styled) }
    report.findings.forEach(keeper.keep)
    try StandardOutput.write(
      json ? jsonText(of: report) : summary(report, keptBy: keeper), as: json ? .json : .text)
    if !report.findings.isEmpty {
      if let output, report.findings.contains(where: { keeper.path(of: $0.target) == nil }) {
        throw OutputFailure(saying: "'\(output)' cannot be written; the example is in what was printed")
      }
      throw ExitCode(1)
    }
    if report.wasInterrupted { throw ExitCode(130) }
  }

  private func targets() throws -> [any FuzzTarget] {
    let chosen = names(target)
    if chosen.isEmpty { return FuzzTargets.all.filter { !$0.isHidden } }
    do {
      return try chosen.map { (name) throws(FuzzError) in try FuzzTargets.all.named(name) }
    } catch {
      throw ValidationError(error.description)
    }
  }

  /// What these targets lack in this build; nil where nothing is missing.
  func lack(of targets: [any FuzzTarget], edges: Int = coverage().edges) -> String? {
    targets.contains { $0 is QueueTarget } ? QueueTarget.lack(edges: edges) : nil
  }

  private func checkSelf(seed: UInt64) throws(FuzzError) -> [SelfCheck.Result] {
    let seesAll = QueueTarget.lack() == nil
    let results = try SelfCheck.run(
      of: FuzzTargets.all.filter { seesAll || !QueueTarget.needsPlainAccesses($0) }, seed: seed)
    for result in results {
      let milliseconds = Int(result.seconds * 1000)
      writeToStandardError(
        "\(result.target): planted bug found in \(result.executions) executions, \(milliseconds) ms\n")
    }
    return results
  }

  func listing() throws -> String {
    struct Listing: Encodable {
      struct Target: Encodable { let name, summary: String, isCanary: Bool }
      let targets: [Target]
    }
    if json {
      return try jsonText(
        of: Listing(
          targets: FuzzTargets.all.map { .init(name: $0.name, summary: $0.summary, isCanary: $0.isHidden) }))
    }
    return FuzzTargets.all.map { "\($0.name.padded(to: 14))  \($0.summary)\n" }.joined()
  }

  private func run(example path: String) throws {
    // An example has a few thousand choices, or at most a megabyte of input, in hexadecimal.
    let example = String(decoding: try readFile(path, longest: 3 << 20), as: UTF8.self)
    let replay: ExampleRun
    do {
      let target = try FuzzTargets.all.target(ofExample: example)
      if let lack = lack(of: [target]) { printToStandardError(lack) }
      replay = try target.makeFuzzer().replay(example)
    } catch {
      throw Failure("'\(path)': \(error.description)")
    }
    if json {
      try StandardOutput.write(json: jsonText(of: replay))
    } else {
      let end = replay.finding.map { "\($0.target): \($0.message)" } ?? "it does not fail"
      try StandardOutput.write(
        ([replay.timeline] + [replay.misfit, end].compactMap { $0 }).map { $0 + "\n" }.joined())
    }
    if replay.finding != nil { throw ExitCode(1) }
  }

  private func summary(_ report: FuzzReport, keptBy keeper: FindingKeeper) -> String {
    var text = report.outcomes.map { line($0) + "\n" }.joined()
    for finding in report.findings {
      text += "\n" + finding.timeline + "\n\(finding.target): \(finding.message)\n\n"
      if let path = keeper.path(of: finding.target) {
        text += "Run it again with:  opportune fuzz --replay \(shellWord(path))\n"
      } else {
        text += "Run it again with:  opportune fuzz --replay /dev/stdin <<'END'\n\(finding.example)END\n"
      }
    }
    return text
  }
}

private func line(_ outcome: TargetOutcome) -> String {
  var text =
    outcome.target.padded(to: 14)
    + "  \(outcome.executions) executions, \(Int(outcome.executionsPerSecond))/s, "
  text += "\(Int(outcome.stepsPerSecond / 1000)) k steps/s, "
  if outcome.states > 0 { text += "\(outcome.states) states, " }
  if outcome.edges > 0 { text += "\(outcome.edgesCovered) of \(outcome.edges) edges, " }
  return text + "\(Int(outcome.seconds.rounded())) s"
}

extension String {
  fileprivate func padded(to width: Int) -> String {
    self + String(repeating: " ", count: max(0, width - count))
  }
}
