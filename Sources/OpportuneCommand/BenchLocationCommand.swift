import ArgumentParser
import OpportuneBench

struct BenchLocationCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "location",
    abstract: "Fences: what a fix costs, by how many there are, and what they take of memory.",
    discussion: """
      A drive among circles scattered over 100 km by 100 km; the first fix, which finds all that is new, is not timed.
      Ctrl-C ends the run with what it has.
      """)

  @Option(help: "Numbers of fences, separated by commas or repeated. (default: 1,1000,100000)")
  var fences: [String] = []

  @Option(help: "Fixes of each drive, one a second at 15 m/s.")
  var fixes = 20_000

  @Option(help: "Metres from the middle of a fence to its border.")
  var radius: Double = 100

  @Option(help: "Repeats of each drive; medians are reported.")
  var repeats = 3

  @Flag(help: "Print JSON, and nothing else, to standard output; or write it to the file that follows.")
  var json = false

  @Argument(help: "With --json: the file to write it to.", completion: .file())
  var jsonFile: String?

  func validate() throws {
    _ = try options()
    try checkJSONFile(jsonFile, json: json)
    if let jsonFile { try checkWritable(jsonFile) }
  }

  func run() throws {
    interceptInterrupts()
    let report = try LocationBench(
      options: try options(), isInterrupted: wasInterrupted, progress: printToStandardError
    ).run()
    try printReport(json: json, to: jsonFile, encoded: { try report.json() }, table: { report.table() })
    if report.wasInterrupted { throw ExitCode(130) }
  }

  private func options() throws -> LocationBenchOptions {
    do {
      return try LocationBenchOptions(
        fences: fences.isEmpty ? ["1", "1000", "100000"] : names(fences), fixes: fixes, repeats: repeats,
        radius: radius)
    } catch {
      throw ValidationError(error.description)
    }
  }
}
