import ArgumentParser

@main
struct OpportuneCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "opportune",
    abstract: "Schedules foreground and background work so that the foreground never waits.",
    subcommands: [BenchCommand.self, DoctorCommand.self])
}
