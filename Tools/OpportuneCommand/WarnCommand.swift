import ArgumentParser
import Foundation
import OpportuneBase
import OpportuneHost
import ToolSupport

struct WarnCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "warn", abstract: "Says that memory is short.",
    discussion: """
      Without a name the host does what it does when the kernel says so, and this prints what it has begun: it warns apps \
      that cooperate, and as its --memory-short says it pages out what is suspended, then terminates one suspended app for \
      each time that it is told, 2 s after the step before at the earliest. With a name that app is warned.

      Example: opportune warn
      """)
  @OptionGroup var socket: HostSocketOption
  @Argument(help: "The app, as opportune apps names it. Default: all of the host.") var name: String?
  @OptionGroup var patience: HostTimeout

  func run() throws {
    let answer = try socket.ask(HostRequest(.warn, name: name), within: patience.limit)
    guard name == nil else {
      for note in answer.notes ?? [] { printToStandardError("Note: \(note)") }
      return
    }
    let lines = (answer.notes ?? ["nothing is to be done now"]).map { $0.printable + "\n" }
    try StandardOutput.write(lines.joined())
  }
}
