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
      hibernated_by says how an app is hibernated: paged out; checkpoint, of which CRIU restores it; or saved state, with \
      which it is started anew; its notes why.
      kept_sockets says for how many sockets of its program what comes has a suspended app go on, scheduled how many local \
      notifications of it are to fire.

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

/// What commands share that change one app.
struct AppChange: ParsableArguments {
  @OptionGroup var socket: HostSocketOption
  @Argument(help: "The app, as opportune apps names it.") var name: String
  @OptionGroup var patience: HostTimeout

  func carryOut(_ action: HostRequest.Action) throws {
    try socket.change(HostRequest(action, name: name), patience)
  }
}

/// What `suspend` and `hibernate` share: the app may go on for a while.
struct AppStop: ParsableArguments {
  @OptionGroup var change: AppChange
  @Option(help: "Locks of files: refuse, terminate or ignore. Default: the host's.")
  var locks: LockPolicy.Answer?

  func carryOut(_ action: HostRequest.Action) throws {
    var request = HostRequest(action, name: change.name)
    request.locks = locks
    var told: Set<String> = []
    while true {
      let answer = try change.socket.ask(request, within: change.patience.limit)
      for note in answer.notes ?? [] where told.insert(note).inserted {
        printToStandardError("Note: \(note)")
      }
      guard let wait = answer.wait else { return }
      // A moment more, since the host looks at it then.
      usleep(UInt32(max(0, min(3600, wait)) * 1_000_000) + 5000)
      request.again = true
    }
  }
}

struct AdoptCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "adopt",
    abstract: "Makes a process that runs an app of the host, with all that descends from it.",
    discussion: """
      A tree that starts processes faster than they are found is stopped until all are, for some milliseconds; without \
      control groups its shell may notice. Refused are the system's first process, threads of the kernel, the host and \
      what it descends from, processes of other users, and what belongs to an app already.

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
    var request = HostRequest(.adopt, name: name)
    (request.pid, request.foreground) = (pid, foreground)
    let answer = try socket.ask(request, within: patience.limit)
    for note in answer.notes ?? [] { printToStandardError("Note: \(note)") }
    try StandardOutput.write("process \(pid) is the app '\((answer.name ?? "").printable)'\n")
  }
}

struct FrontCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "front", abstract: "Brings an app of the host to the foreground.",
    discussion: """
      The app that was there goes to the background. A suspended one goes on. One that does not run is started where it \
      has a manifest.

      Example: opportune front game
      """)
  @OptionGroup var change: AppChange
  func run() throws { try change.carryOut(.front) }
}

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

struct HibernateCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "hibernate", abstract: "Stops an app of the host, and takes it out of main memory.",
    discussion: """
      It is suspended as by opportune suspend. Then what it has in main memory is paged out: pages of files to their files, \
      all else to swap, as far as there is some. This returns when that has begun; opportune apps --json tells in notes what \
      has become of it. By opportune front or resume it goes on as it was. It has saved nothing: where it is terminated, what \
      it had not saved before is lost.

      Where there is no swap, CRIU writes the program to files and ends it, where the host was given --criu and that can be: \
      front or resume restores it as it was. Else a program that has a manifest and has said that it can be started anew \
      saves its state, and is ended; front or resume starts it with that. hibernated_by of opportune apps --json says which was done.

      Example: opportune hibernate ide
      """)
  @OptionGroup var stop: AppStop
  func run() throws { try stop.carryOut(.hibernate) }
}

struct KeepCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "keep", abstract: "Exempts an app of the host from suspension.",
    discussion: """
      Until a time of the day, for a time, or until it is ended; it ends with the app and with the host as well. \
      opportune apps shows it.

      Example: opportune keep make --until 18:00 --reason "the release"
      """)
  @OptionGroup var change: AppChange
  @Option(help: "The local time of its end, HH:MM, within 24 hours.") var until: String?
  @Option(name: .customLong("for"), help: "How long, as 90s, 15m, 1.5h or 2d; at most 366d.")
  var duration: String?
  @Option(help: "Why, for people: up to 200 characters.") var reason: String?
  @Flag(help: "End it.") var end = false

  func validate() throws {
    guard [until != nil, duration != nil, end].count(where: { $0 }) <= 1 else {
      throw ValidationError("expected one of --until, --for and --end")
    }
    if end, reason != nil { throw ValidationError("--end needs no --reason") }
    if let reason, reason.count > Exemption.longestReason {
      throw ValidationError(
        "--reason has \(reason.count) characters: expected up to \(Exemption.longestReason)")
    }
    _ = try seconds()
  }

  private func seconds() throws -> Double? {
    if let until {
      guard let seconds = Exemption.seconds(until: until, now: Int64(time(nil))) else {
        throw ValidationError("--until is '\(until)': expected HH:MM")
      }
      return seconds
    }
    return try duration.map { try parseSeconds($0, "--for") }
  }

  func run() throws {
    var request = HostRequest(.keep, name: change.name)
    request.end = end
    (request.seconds, request.reason) = (try seconds(), reason)
    try change.socket.change(request, change.patience)
  }
}

struct ResumeCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "resume",
    abstract: "Lets an app go on that is suspended or hibernated, in background.",
    discussion: "Example: opportune resume make")
  @OptionGroup var change: AppChange
  func run() throws { try change.carryOut(.resume) }
}

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
