import ArgumentParser

struct LocationCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "location", abstract: "Fences and recorded tracks.", subcommands: [LocationReplayCommand.self])
}
