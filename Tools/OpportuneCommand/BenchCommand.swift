import ArgumentParser

struct BenchCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench", abstract: "Measures what Opportune does against what competes with it.",
    subcommands: [
      BenchServeCommand.self, BenchLatencyCommand.self, BenchIOCommand.self, BenchMemoryCommand.self,
      BenchLifecycleCommand.self, BenchLocationCommand.self, BenchHostCommand.self,
    ])
}
