import ArgumentParser
import Foundation
import OpportuneBase
import OpportuneHost

struct AppsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "apps", abstract: "Lists the apps of the host.",
    discussion: """
      The CPU time is that of all processes of the app, the memory what is in main memory of them.

      Example: opportune apps --json
      """)

  @OptionGroup var socket: HostSocketOption
  @OptionGroup var patience: HostTimeout
  @Flag(help: "Print JSON.") var json = false

  func run() throws {
    let apps = try socket.ask(HostRequest(.apps), within: patience.limit).apps ?? []
    if json {
      let encoder = JSONEncoder()
      encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
      try StandardOutput.write(json: String(decoding: try encoder.encode(apps), as: UTF8.self) + "\n")
    } else {
      try StandardOutput.write(Self.table(apps) + "\n")
    }
  }

  static func table(_ apps: [AppEntry]) -> String {
    guard !apps.isEmpty else { return "no app runs" }
    let rows =
      [["app", "state", "processes", "CPU", "memory", "kept by"]]
      + apps.map { app in
        [
          app.id.printable, app.state.printable, "\(app.pids.count)",
          String(format: "%.1f s", app.cpuSeconds), String(format: "%.1f MB", Double(app.memoryBytes) / 1e6),
          app.keptBy.isEmpty ? "-" : app.keptBy.map(\.printable).joined(separator: ", "),
        ]
      }
    let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
    return rows.map { row in
      let cells = zip(row, widths).map { $0.padding(toLength: $1, withPad: " ", startingAt: 0) }
      return String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
    }.joined(separator: "\n")
  }
}

/// What `front`, `suspend`, `resume` and `terminate` share.
struct AppChange: ParsableArguments {
  @OptionGroup var socket: HostSocketOption
  @Argument(help: "The app, as opportune apps names it.") var name: String
  @OptionGroup var patience: HostTimeout

  func carryOut(_ action: HostRequest.Action) throws {
    try socket.change(HostRequest(action, name: name), patience)
  }
}

struct FrontCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "front", abstract: "Brings an app of the host to the foreground.",
    discussion: """
      The app that was there goes to the background. A suspended one goes on.

      Example: opportune front game
      """)
  @OptionGroup var change: AppChange
  func run() throws { try change.carryOut(.front) }
}

struct SuspendCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "suspend", abstract: "Stops an app of the host.",
    discussion: """
      When this returns, nothing of it executes. Its memory and connections stay; peers wait for it.

      Example: opportune suspend make
      """)
  @OptionGroup var change: AppChange
  func run() throws { try change.carryOut(.suspend) }
}

struct ResumeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "resume", abstract: "Lets a suspended app of the host go on, in background.",
    discussion: "Example: opportune resume make")
  @OptionGroup var change: AppChange
  func run() throws { try change.carryOut(.resume) }
}

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
