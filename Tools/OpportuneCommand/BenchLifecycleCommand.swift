import ArgumentParser
import OpportuneBench

struct BenchLifecycleCommand: MeasuringCommand {
  typealias Measured = LifecycleBench

  static let configuration = CommandConfiguration(
    commandName: "lifecycle",
    abstract:
      "The lifecycle: what its moves cost in virtual time and live, how soon apps resume, audio beside a load.",
    discussion: """
      Figures: \(LifecycleBenchOptions.Figure.allCases.map(\.rawValue).joined(separator: ", ")).
      The audio figure takes some two minutes: so many frames in real time, of five contenders, so often. Ctrl-C ends \
      the run with what it has.
      """)

  @Option(help: "Figures, separated by commas or repeated. (default: all)") var figure: [String] = []
  @Option(help: "Apps of the virtual machine.") var apps = 10_000
  @Option(help: "Switches to time of each kind.") var switches = 20_000
  @Option(help: "Frames of audio of each contender in each repeat.") var frames = 500
  @Option(help: "Repeats of the audio figure, in which its contenders take turns.") var repeats = 3
  @OptionGroup var output: ReportOutput

  func options() throws(BenchError) -> LifecycleBenchOptions {
    try LifecycleBenchOptions(
      figures: names(figure), apps: apps, switches: switches, frames: frames, repeats: repeats)
  }
}
