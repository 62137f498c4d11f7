import ArgumentParser
import Glibc
import OpportuneBench

struct BenchIOCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "io",
    abstract: "Files and sockets in two classes: latency, cost, rates.",
    discussion: """
      Figures: \(IOBenchOptions.Figure.allCases.map(\.rawValue).joined(separator: ", ")).
      Ctrl-C ends the run with what it has.
      """)

  @Option(help: "Figures, separated by commas or repeated. (default: all)")
  var figure: [String] = []

  @Option(help: "Seconds of each point and repeat.")
  var seconds: Double = 30

  @Option(help: "Repeats of each point; medians are reported.")
  var repeats = 3

  @Option(help: "Folder for the test file, on the device that is meant.", completion: .directory)
  var folder = "/var/tmp"

  @Option(help: "Size of the test file in MiB.")
  var fileMebibytes = 1024

  @OptionGroup var output: ReportOutput

  @Option(
    help: "SwiftNIO's echo server, of `swift build -c release --product EchoRival` in bench/.",
    completion: .file())
  var echoRival: String?

  @Option(help: "Write the storage figure's Pareto front as SVG to this file.", completion: .file())
  var svg: String?

  func validate() throws {
    guard access(folder, W_OK | X_OK) == 0 else {
      throw Failure("'\(folder)' is no folder that you may write to")
    }
    _ = try options()
    if let svg { try checkFileName(svg) }
  }

  mutating func run() async throws {
    try output.checkFileIsWritable()
    if let svg { try checkWritable(svg) }
    interceptInterrupts()
    let report = try await IOBench(
      options: try options(), isInterrupted: wasInterrupted,
      progress: printToStandardError
    ).run()
    try output.report(json: report.json, table: report.table)
    if let svg { try write(IOParetoChart(report).svg(), to: svg) }
    if report.wasInterrupted { throw ExitCode(130) }
  }

  private func options() throws -> IOBenchOptions {
    do {
      return try IOBenchOptions(
        figures: names(figure), seconds: seconds, repeats: repeats,
        folder: folder, fileMebibytes: fileMebibytes, echoRival: echoRival)
    } catch {
      throw ValidationError(error.description)
    }
  }
}
