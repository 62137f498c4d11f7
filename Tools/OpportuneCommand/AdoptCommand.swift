import ArgumentParser
import Foundation
import OpportuneBase
import OpportuneHost
import ToolSupport

struct AdoptCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "adopt",
    abstract: "Makes a process that runs an app of the host, with all that descends from it.",
    discussion: """
      A tree that starts processes faster than they are found is stopped until all are, for some milliseconds; without \
      control groups its shell may notice. Refused are the system's first process, threads of the kernel, the host and \
      what it descends from, the shell that asks, processes of other users, what belongs to an app already, and what a \
      session hangs on: display servers, the bus, sound, logins.

      Example: opportune adopt 4711 --name build
      """)

  @OptionGroup var socket: HostSocketOption
  @Argument(help: "The process's number.") var pid: Int32
  @Flag(help: "In front, not in background.") var foreground = false
  @Option(help: "The app's name. Default: that of the program, with a number where it is taken.")
  var name: String?
  @OptionGroup var patience: HostTimeout

  func validate() throws {
    if pid < 1 { throw ValidationError("PID is \(pid): expected 1 or more") }
  }

  func run() throws {
    // What the host says of the first is plainer.
    if pid > 1, SessionProcesses.above().contains(pid) {
      throw Failure(
        "process \(pid) has started this command, and could not let itself go on once it is suspended")
    }
    var request = HostRequest(.adopt, name: name)
    (request.pid, request.foreground) = (pid, foreground)
    let answer = try socket.ask(request, within: patience.limit)
    for note in answer.notes ?? [] { printToStandardError("Note: \(note)") }
    try StandardOutput.write("process \(pid) is the app '\((answer.name ?? "").printable)'\n")
  }
}
