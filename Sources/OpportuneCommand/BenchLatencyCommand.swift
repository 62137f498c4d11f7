import ArgumentParser
import Glibc
import OpportuneBench

struct BenchLatencyCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "latency",
    abstract: "Foreground latency, submit to start, beside background work that saturates every core.",
    discussion: """
      All contenders run in one run, interleaved, on the same job code. Ctrl-C ends the run with what it has.

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

  @Flag(help: "Print JSON, and nothing else, to standard output; or write it to the file that follows.")
  var json = false

  @Argument(help: "With --json: the file to write it to.", completion: .file())
  var jsonFile: String?

  @Option(help: "Write a self-contained page with curves and a timeline to this file.", completion: .file())
  var html: String?

  func validate() throws {
    try checkJSONFile(jsonFile, json: json)
    _ = try options()
    for file in [jsonFile, html].compactMap({ $0 }) { try checkWritable(file) }
  }

  mutating func run() async throws {
    let options = try options()
    interceptInterrupts()
    let report = try await BenchRun(
      options: options, isInterrupted: wasInterrupted,
      progress: printToStandardError
    ).run()
    try printReport(
      json: json, to: jsonFile, encoded: { try ReportJSON.encode(report) }, table: { ReportTable.render(report) })
    if let html { try write(HTMLReport.render(report), to: html) }
    if !report.noise.isValid { throw ExitCode(2) }
    if report.wasInterrupted { throw ExitCode(130) }
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
