import ArgumentParser
import OpportuneHost

struct ResumeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "resume",
    abstract: "Lets an app go on that is suspended or hibernated, in background.",
    discussion: "Example: opportune resume make")
  @OptionGroup var change: AppChange
  func run() throws { try change.carryOut(.resume) }
}
