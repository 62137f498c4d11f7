import ArgumentParser
import OpportuneBench

struct BenchMemoryCommand: MeasuringCommand {
  typealias Measured = MemoryBench

  static let configuration = CommandConfiguration(
    commandName: "memory",
    abstract: "Purgeable memory: what access costs, how fast it is given back, what hibernation costs.",
    discussion: """
      Figures: \(MemoryBenchOptions.Figure.allCases.map(\.rawValue).joined(separator: ", ")).
      pressure has rivals without the library where a memory cgroup may be made and, for one of them, where there is swap; \
      hibernate where CRIU runs. What is skipped is said. Ctrl-C ends the run with what it has.
      """)

  @Option(help: "Figures, separated by commas or repeated. (default: all)") var figure: [String] = []
  @Option(help: "Repeats of each figure; medians are reported.") var repeats = 5
  @Option(help: "Purgeable memory in MiB; the run takes up twice as much.") var mebibytes = 1024
  @Option(help: "Where hibernate makes its files, of up to 300 MB, and removes them.", completion: .directory)
  var folder = "."
  @Option(help: "CRIU's command, to compare hibernate with where it runs.") var criu = "criu"
  @OptionGroup var output: ReportOutput

  func options() throws(BenchError) -> MemoryBenchOptions {
    try MemoryBenchOptions(
      figures: names(figure), repeats: repeats, mebibytes: mebibytes, folder: folder, criu: criu)
  }
}
