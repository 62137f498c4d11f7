import ArgumentParser

struct BenchCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench", abstract: "Measures foreground latency beside background work.",
    subcommands: [
      BenchLatencyCommand.self, BenchIOCommand.self, BenchMemoryCommand.self, BenchLifecycleCommand.self,
      BenchLocationCommand.self,
    ])
}
