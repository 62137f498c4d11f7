import ArgumentParser
import Glibc
import OpportuneApps
import OpportuneHost

struct NotifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "notify", abstract: "Sends a message to an app of a running host.",
    discussion: """
      The host is opportune host, where --socket does not name the socket that a program has opened for the apps inside of \
      it. A suspended app goes on in background for the message, and is suspended again when it has answered. One that does \
      not run is started in background where it has a manifest. A program of opportune host is to have joined it: \
      one that does not cooperate hears no messages, which is an error.

      Examples:
        opportune notify mail letter --payload from=ada --reply
        opportune notify --socket /run/user/1000/notes.sock org.example.notes mail --payload from=ada
      """)

  @OptionGroup var socket: HostSocketOption
  @Argument(help: "The app, as opportune apps names it, or the identifier in its manifest.") var app: String
  @Argument(help: "What kind of message it is.") var kind: String
  @Option(help: "A key and its value, as from=ada. May be repeated.") var payload: [String] = []
  @Flag(
    help: "Wait until the program has answered, and print its reply if it has one; of opportune host alone.")
  var reply = false
  @OptionGroup var patience: HostTimeout

  func validate() throws { _ = try pairs() }

  func run() throws {
    if reply { return try sendAndWait() }
    do {
      try Push(app: app, kind: kind, payload: pairs()).send(to: socket.path(), within: patience.limit)
    } catch let error as PushError {
      throw Failure(error.message)
    }
  }

  private func sendAndWait() throws {
    var request = HostRequest(.notify, name: app)
    (request.kind, request.payload) = (kind, try pairs())
    let end = ContinuousClock.now + patience.limit
    while true {
      let answer = try socket.ask(request, within: patience.limit)
      guard let wait = answer.wait else {
        if let reply = answer.reply { try StandardOutput.write(reply.printable + "\n") }
        return
      }
      guard ContinuousClock.now < end else {
        throw Failure("app '\(app)' has the message, and has not answered within \(patience.timeout) s")
      }
      usleep(UInt32(max(0, min(1, wait)) * 1_000_000))
      (request.again, request.message) = (true, answer.message)
    }
  }

  private func pairs() throws -> [String: String] {
    var result: [String: String] = [:]
    for pair in payload {
      let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      guard parts.count == 2, !parts[0].isEmpty else {
        throw ValidationError("--payload '\(pair)': expected key=value")
      }
      result[parts[0]] = parts[1]
    }
    return result
  }
}
