import ArgumentParser
import OpportuneHost

struct TerminateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "terminate", abstract: "Ends an app of the host.",
    discussion: """
      Its processes get SIGTERM, and what is left after the host's grace is killed; this does not wait for it. A \
      suspended app is killed at once.

      Example: opportune terminate ide
      """)
  @OptionGroup var change: AppChange
  func run() throws { try change.carryOut(.terminate) }
}
