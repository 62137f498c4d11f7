import ArgumentParser
import OpportuneApps

struct NotifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "notify", abstract: "Pushes a message to an app of a running host.",
    discussion:
      "Example: opportune notify --socket /run/user/1000/notes.sock org.example.notes mail --payload from=ada"
  )

  @Option(help: "The host's socket, as its program opened it.", completion: .file()) var socket: String
  @Argument(help: "The identifier in the app's manifest.") var app: String
  @Argument(help: "What kind of message it is.") var kind: String
  @Option(help: "A key and its value, as from=ada. May be repeated.") var payload: [String] = []
  @OptionGroup var patience: HostTimeout

  func validate() throws { _ = try pairs() }

  func run() throws {
    do {
      try Push(app: app, kind: kind, payload: pairs()).send(to: socket, within: patience.limit)
    } catch let error as PushError {
      throw Failure(error.message)
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
