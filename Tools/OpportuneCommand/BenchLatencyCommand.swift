import ArgumentParser
import Glibc
import OpportuneBench

struct BenchLatencyCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "latency",
    abstract: "Foreground latency, submit to start, beside background work that saturates every core.",
    discussion: """
      All contenders run in one run, interleaved, on the same job code. Ctrl-C ends the run with what it has.

      Each scenario and contender runs for --seconds beside its background, from 30 ms after that has begun, a quarter \
      of that without, and its background for 35 % of that alone: by default \(Self.windows(isRoot: false)) of \
      windows, \(Self.windows(isRoot: true)) as root, however many the repeats. Starting, reading the tree and \
      checking answers come on top.

      Scenarios:
      \(Scenario.all.map { "  \($0.name): \($0.summary)" }.joined(separator: "\n"))

      Contenders: \(ContenderKind.all.map(\.name).joined(separator: ", "))
      """)

  @Option(help: "Scenarios, separated by commas or repeated; or all. (default: search)")
  var scenario: [String] = []

  @Option(
    help: """
      Only these contenders, separated by commas or repeated. (default: all that this user may run, less the variants \
      of opportune)
      """)
  var contender: [String] = []

  @Option(help: "Seconds of each scenario and contender beside its background, all repeats together.")
  var seconds: Double = 10

  @Option(help: "How many windows the seconds are split over. (default: 5, or 2 with jobs of a second)")
  var repeats: Int?

  @Option(help: "Folder to index; may be repeated. (default: \(Corpus.defaultRoots.joined(separator: " ")))")
  var tree: [String] = []

  @OptionGroup var output: ReportOutput

  @Option(help: "Write a self-contained page with curves and a timeline to this file.", completion: .file())
  var html: String?

  func validate() throws {
    _ = try options()
    if let html { try checkFileName(html) }
  }

  mutating func run() async throws {
    try output.checkFileIsWritable()
    if let html { try checkWritable(html) }
    let options = try options()
    interceptInterrupts()
    let report = try await report(options)
    try output.report(json: { try ReportJSON.encode(report) }, table: { ReportTable.render(report) })
    if let html { try write(HTMLReport.render(report), to: html) }
    if !report.noise.isValid { throw ExitCode(2) }
    if report.wasInterrupted { throw ExitCode(130) }
  }

  /// A tree without a readable text is found out by reading it.
  private func report(_ options: BenchOptions) async throws -> BenchReport {
    do {
      return try await BenchRun(
        options: options, isInterrupted: wasInterrupted, progress: printToStandardError
      ).run()
    } catch let error as BenchError where error.code == .invalidArgument {
      throw ValidationError(error.description)
    }
  }

  private static func windows(isRoot: Bool) -> String {
    guard let options = try? BenchOptions(isRoot: isRoot) else { return "?" }
    return "\(options.turns) × \(Int(options.seconds)) s × 1.6 = \(Int(options.secondsOfWindows.rounded())) s"
  }

  private func options() throws -> BenchOptions {
    do {
      return try BenchOptions(
        scenarios: scenario, contenders: names(contender),
        seconds: seconds, repeats: repeats, trees: tree, isRoot: MachineReport.isRoot)
    } catch {
      throw ValidationError(error.description)
    }
  }
}
