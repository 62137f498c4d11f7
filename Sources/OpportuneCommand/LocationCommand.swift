import ArgumentParser

struct LocationCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "location", abstract: "Fences, live and on recorded tracks.",
    subcommands: [LocationMonitorCommand.self, LocationReplayCommand.self])
}
