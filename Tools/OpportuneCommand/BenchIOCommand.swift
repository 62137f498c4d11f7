import ArgumentParser
import OpportuneBench

struct BenchIOCommand: MeasuringCommand {
  typealias Measured = IOBench

  static let configuration = CommandConfiguration(
    commandName: "io",
    abstract: "Files and sockets in two classes: latency, cost, rates.",
    discussion: """
      Figures: \(IOBenchOptions.Figure.allCases.map(\.rawValue).joined(separator: ", ")).
      Ctrl-C ends the run with what it has.
      """)

  @Option(help: "Figures, separated by commas or repeated. (default: all)") var figure: [String] = []
  @Option(help: "Seconds of each point and repeat.") var seconds: Double = 30
  @Option(help: "Repeats of each point; medians are reported.") var repeats = 3
  @Option(help: "Folder for the test file, on the device that is meant.", completion: .directory)
  var folder = "/var/tmp"
  @Option(help: "Size of the test file in MiB.") var fileMebibytes = 1024
  @OptionGroup var output: ReportOutput
  @Option(
    help: "SwiftNIO's echo server, of `swift build -c release --product EchoRival` in bench/.",
    completion: .file())
  var echoRival: String?
  @Option(help: "Write the storage figure's Pareto front as SVG to this file.", completion: .file())
  var svg: String?

  var extras: [(path: String, text: (IOBenchReport) -> String)] {
    svg.map { [($0, { IOParetoChart($0).svg() })] } ?? []
  }

  func options() throws(BenchError) -> IOBenchOptions {
    try IOBenchOptions(
      figures: names(figure), seconds: seconds, repeats: repeats,
      folder: folder, fileMebibytes: fileMebibytes, echoRival: echoRival)
  }
}
