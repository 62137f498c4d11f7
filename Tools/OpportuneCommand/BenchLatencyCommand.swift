import ArgumentParser
import OpportuneBench

struct BenchLatencyCommand: MeasuringCommand {
  typealias Measured = BenchRun

  static let configuration = CommandConfiguration(
    commandName: "latency",
    abstract: "Foreground latency, submit to start, beside background work that saturates every core.",
    discussion: """
      All contenders run in one run, interleaved, on the same job code. Ctrl-C ends the run with what it has.

      Each scenario and contender runs for --seconds beside its background, from 30 ms after that has begun, a quarter \
      of that without, and its background for 35 % of that alone: by default \(Self.windows(isRoot: false)) of \
      windows, \(Self.windows(isRoot: true)) as root, however many the repeats. Starting comes on top.

      Scenarios:
      \(Scenario.all.map { "  \($0.name): \($0.summary)" }.joined(separator: "\n"))

      Contenders: \(ContenderKind.all.map(\.name).joined(separator: ", "))
      """)

  @Option(help: "Scenarios, separated by commas or repeated; or all. (default: \(Scenario.standard))")
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
  @OptionGroup var output: ReportOutput
  @Option(help: "Write a self-contained page with curves and a timeline to this file.", completion: .file())
  var html: String?

  var extras: [(path: String, text: (BenchReport) -> String)] {
    html.map { [($0, HTMLReport.render)] } ?? []
  }

  func options() throws(BenchError) -> BenchOptions {
    try BenchOptions(
      scenarios: scenario, contenders: names(contender),
      seconds: seconds, repeats: repeats, isRoot: MachineReport.isRoot)
  }

  private static func windows(isRoot: Bool) -> String {
    guard let options = try? BenchOptions(isRoot: isRoot) else { return "?" }
    return "\(options.turns) × \(Int(options.seconds)) s × 1.6 = \(Int(options.secondsOfWindows.rounded())) s"
  }
}
