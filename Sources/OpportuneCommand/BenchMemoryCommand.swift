import ArgumentParser
import OpportuneBench

struct BenchMemoryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "memory",
    abstract: "Purgeable memory: what access costs, how fast it is given back, what the foreground waits for it.",
    discussion: """
      Figures: \(MemoryBenchOptions.Figure.allCases.map(\.rawValue).joined(separator: ", ")).
      Ctrl-C ends the run with what it has.
      """)

  @Option(help: "Figures, separated by commas or repeated. (default: all)")
  var figure: [String] = []

  @Option(help: "Repeats of each figure; medians are reported.")
  var repeats = 5

  @Option(help: "Purgeable memory in MiB; the run takes up twice as much.")
  var mebibytes = 1024

  @Flag(help: "Print JSON, and nothing else, to standard output; or write it to the file that follows.")
  var json = false

  @Argument(help: "With --json: the file to write it to.", completion: .file())
  var jsonFile: String?

  func validate() throws {
    try checkJSONFile(jsonFile, json: json)
    _ = try options()
    if let jsonFile { try checkWritable(jsonFile) }
  }

  mutating func run() throws {
    interceptInterrupts()
    let report = try MemoryBench(
      options: try options(), isInterrupted: wasInterrupted, progress: printToStandardError
    ).run()
    try printReport(json: json, to: jsonFile, encoded: { try report.json() }, table: { report.table() })
    if report.wasInterrupted { throw ExitCode(130) }
  }

  private func options() throws -> MemoryBenchOptions {
    do {
      return try MemoryBenchOptions(figures: names(figure), repeats: repeats, mebibytes: mebibytes)
    } catch {
      throw ValidationError(error.description)
    }
  }
}
