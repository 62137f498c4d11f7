import ArgumentParser
import OpportuneBench

struct BenchHostCommand: MeasuringCommand {
  typealias Measured = HostBench

  static let configuration = CommandConfiguration(
    commandName: "host",
    abstract: "Real programs as apps of the host: one in front beside others, switches, and the host idle.",
    discussion: """
      front: redis-server is asked at a fixed rate, latency counted from the time that was intended, while gcc or stress-ng \
      runs behind it: alone, as a shell starts them, by nice and ionice, in a control group of the least weight, and as \
      apps of a host. Contenders take turns. switches: from 'opportune front' to the first answer of a program of 256 MB. \
      idle: what the host takes while nothing happens.

      Programs that are not in PATH leave out their figure, which is told. Each run has a host of its own, on a socket \
      of its own. Ctrl-C ends the run with what it has.

      Figures: \(HostBenchOptions.Figure.allCases.map(\.rawValue).joined(separator: ", ")).
      Loads: \(HostLoad.allCases.map(\.rawValue).joined(separator: ", ")).
      Contenders: \(HostContender.allCases.map(\.rawValue).joined(separator: ", ")).
      """)

  @Option(help: "Figures, separated by commas or repeated. (default: all)") var figure: [String] = []
  @Option(help: "What runs behind, separated by commas or repeated. (default: all)") var load: [String] = []
  @Option(help: "Contenders, separated by commas or repeated. (default: all)") var contender: [String] = []
  @Option(help: "Seconds of each window, and of the idle figure, 0.5 to 600.") var seconds: Double = 10
  @Option(help: "Repeats of each window.") var repeats = 3
  @Option(help: "Requests a second to the program in front, 100 to 20000.") var rate = 2000
  @Option(help: "Apps of the idle figure.") var apps = 200
  @Option(help: "Where files are made, on the device that is meant, and removed.", completion: .directory)
  var folder = "/var/tmp"
  @OptionGroup var output: ReportOutput

  func options() throws(BenchError) -> HostBenchOptions {
    try HostBenchOptions(
      figures: names(figure), loads: names(load), contenders: names(contender), seconds: seconds,
      repeats: repeats, rate: rate, apps: apps, folder: folder)
  }
}
