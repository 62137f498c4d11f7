import ArgumentParser
import Foundation
import OpportuneBase
import OpportuneHost
import ToolSupport

struct AppsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "apps", abstract: "Lists the apps of the host.",
    discussion: """
      The CPU time is that of all processes of the app, the memory what is in main memory of them. With --json memory_by \
      says how that was found: group, what its control group counts, files that it read first included; else pss, of a page \
      that several processes have a share for each, as of adopted programs; rss where the kernel tells no more. \
      hibernated_by says how an app is hibernated: paged out; frozen, where the kernel took nothing of note; checkpoint, of \
      which CRIU restores it; or saved state, with which it is started anew; its notes why.
      kept_sockets says for how many sockets of its program what comes has a suspended app go on, scheduled how many local \
      notifications of it are to fire.

      On a terminal what could not be done for them, and the devices that they hold, stands below the table: their notes.

      Example: opportune apps --json
      """)

  @OptionGroup var socket: HostSocketOption
  @OptionGroup var patience: HostTimeout
  @Flag(help: "Also those that have a manifest and do not run, with the state 'terminated'.") var all = false
  @Flag(help: "Print JSON.") var json = false

  func run() throws {
    var request = HostRequest(.apps)
    request.all = all
    let apps = try socket.ask(request, within: patience.limit).apps ?? []
    if json {
      try StandardOutput.write(json: jsonText(of: apps))
    } else {
      try StandardOutput.write(Self.table(apps, hasNotes: isatty(STDOUT_FILENO) == 1) + "\n")
    }
  }

  /// - Parameter hasNotes: whether they stand below, for people; a script that cuts the table has --json.
  static func table(_ apps: [AppEntry], hasNotes: Bool) -> String {
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
    let lines = rows.map { row in
      let cells = zip(row, widths).map { $0.padding(toLength: $1, withPad: " ", startingAt: 0) }
      return String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
    }
    let notes =
      !hasNotes ? [] : apps.flatMap { app in app.notes.map { "\(app.id.printable): \($0.printable)" } }
    return (lines + (notes.isEmpty ? [] : [""] + notes)).joined(separator: "\n")
  }
}
