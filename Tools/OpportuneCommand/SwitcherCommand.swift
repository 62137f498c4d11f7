import ArgumentParser
import Foundation
import OpportuneApps
import OpportuneBase
import ToolSupport

extension SwitcherRequest.Action: ExpressibleByArgument {}

struct SwitcherCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "switcher", abstract: "Lists, brings forward and terminates apps of a running host.",
    discussion: """
      The host's program opened the socket, as for opportune notify; it serves its own user unless it says otherwise.

      Example: opportune switcher /run/user/1000/notes.sock bring org.example.notes
      """)

  @Argument(help: "The host's socket, as its program opened it.", completion: .file()) var socket: String
  @Argument(help: "What to do: list, bring or terminate.") var action: SwitcherRequest.Action
  @Argument(help: "For bring and terminate: the identifier in the app's manifest.") var app: String?
  @OptionGroup var patience: HostTimeout
  @Flag(help: "Print JSON.") var json = false

  func validate() throws {
    if action == .list, let app { throw ValidationError("'\(app)' is not expected: list takes no app") }
    if action != .list, app == nil {
      throw ValidationError("\(action.rawValue) needs the identifier of an app")
    }
  }

  func run() throws {
    let apps: [SwitcherEntry]
    do {
      apps = try SwitcherRequest(action, app: app).send(to: socket, within: patience.limit)
    } catch {
      throw Failure(error.description)
    }
    if json {
      try StandardOutput.write(json: jsonText(of: apps))
    } else {
      try StandardOutput.write(Self.table(apps) + "\n")
    }
  }

  static func table(_ apps: [SwitcherEntry]) -> String {
    guard !apps.isEmpty else { return "no app runs" }
    let names = apps.map(\.app.printable)
    let width = max(4, names.map(\.count).max() ?? 0)
    func row(_ cells: [String]) -> String {
      let padded = zip(cells, [width, 21, 5]).map {
        $0.padding(toLength: max($1, $0.count), withPad: " ", startingAt: 0)
      }
      return (padded + cells.dropFirst(3)).joined(separator: "  ")
    }
    let rows = zip(apps, names).map {
      row([$1, $0.state.printable, "\($0.tasks)", $0.snapshot.map { "\($0) bytes" } ?? "none"])
    }
    return ([row(["app", "state", "tasks", "image"])] + rows).joined(separator: "\n")
  }
}
