import ArgumentParser

struct BenchCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench", abstract: "Measures what Opportune does against what competes with it.",
    subcommands: [
      BenchLatencyCommand.self, BenchIOCommand.self, BenchMemoryCommand.self, BenchLifecycleCommand.self,
      BenchLocationCommand.self,
    ])
}
