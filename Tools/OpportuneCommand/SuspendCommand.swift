import ArgumentParser
import OpportuneHost

struct SuspendCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "suspend", abstract: "Stops an app of the host.",
    discussion: """
      When this returns with status 0, nothing of it executes. Its memory and connections stay; peers wait for it.

      A program that cooperates is told first, and has the host's grace for each answer and a limit for its background \
      tasks. Where it holds a lock of a file it goes on for the host's grace, to let go; then it stays running (refuse), is \
      terminated instead, or is suspended all the same (ignore). An app that is kept is not suspended.

      Example: opportune suspend make
      """)
  @OptionGroup var stop: AppStop
  func run() throws { try stop.carryOut(.suspend) }
}
