import ArgumentParser
import OpportuneHost

struct FrontCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "front", abstract: "Brings an app of the host to the foreground.",
    discussion: """
      The app that was there goes to the background. A suspended one goes on. One that does not run is started where it \
      has a manifest.

      Example: opportune front game
      """)
  @OptionGroup var change: AppChange
  func run() throws { try change.carryOut(.front) }
}
