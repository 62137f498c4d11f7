import ArgumentParser

struct LocationCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "location", abstract: "Fences, live and on recorded tracks, and who may know.",
    subcommands: [LocationMonitorCommand.self, LocationReplayCommand.self, LocationSettingsCommand.self])
}
