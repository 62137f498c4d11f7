import ArgumentParser
import OpportuneBench

struct BenchMemoryCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "memory",
    abstract: "Purgeable memory: what access costs, how fast it is given back, what hibernation costs.",
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

  @Option(help: "Where hibernate makes its files, of up to 150 MB, and removes them.", completion: .directory)
  var folder = "."

  @OptionGroup var output: ReportOutput

  func validate() throws {
    _ = try options()
    try output.checkFileIsWritable()
  }

  mutating func run() throws {
    interceptInterrupts()
    let report = try MemoryBench(
      options: try options(), isInterrupted: wasInterrupted, progress: printToStandardError
    ).run()
    try output.print(json: report.json, table: report.table)
    if report.wasInterrupted { throw ExitCode(130) }
  }

  private func options() throws -> MemoryBenchOptions {
    do {
      return try MemoryBenchOptions(figures: names(figure), repeats: repeats, mebibytes: mebibytes, folder: folder)
    } catch {
      throw ValidationError(error.description)
    }
  }
}
