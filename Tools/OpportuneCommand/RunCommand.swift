import ArgumentParser
import Foundation
import Glibc
import OpportuneApps
import OpportuneBase
import OpportuneHost

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Runs a program as an app of the host.",
    discussion: """
      With a name alone the host starts the app that has this name in a manifest, unless it runs; a suspended one goes on. \
      Its input is empty, its output the host's.

      With '--' this command becomes the program: terminal, signals, job control, folder and exit status are as without it, and its \
      environment has OPPORTUNE_APP and, with the host's socket, OPPORTUNE_SOCKET in addition. The status is 127 where \
      the program is not found, and 126 where it cannot be executed.

      With --restartable the host also keeps what the program is started with: its arguments, folder and environment, \(RunDeclaration.largest / 1024) \
      KiB at most. So it may end one that saves its state, to hibernate it, and 'opportune front', 'opportune resume' and messages start \
      it anew with that; after it was terminated because memory was short they start it without. Then it has no terminal: \
      its input is empty, its output the host's. That ends when the program ends by itself or by 'opportune terminate'.

      Examples: opportune run -- make -j8
                opportune run --restartable -- reader book
                opportune run mail
      """)

  @OptionGroup var socket: HostSocketOption
  @Flag(help: "In front, not in background.") var foreground = false
  @Option(help: "The app's name. Default: that of the program's file, with a number where it is taken.")
  var name: String?
  @Flag(help: "The program is started anew when the host has ended it with its state saved, or for memory.")
  var restartable = false
  @OptionGroup var patience: HostTimeout
  @Argument(help: "An app that has a manifest: opportune apps --all lists them.") var app: String?
  @Argument(parsing: .postTerminator, help: "The program and its arguments, behind '--'.")
  var command: [String] = []

  /// What else to tell whose arguments are not understood, where they are a program's without '--' before it.
  static func hint(for arguments: [String]) -> String? {
    guard arguments.first == configuration.commandName, !arguments.contains("--"),
      let start = arguments.dropFirst().firstIndex(where: { ProgramFile.find($0).path != nil })
    else { return nil }
    let program = arguments[start...].map { word in
      let dashes = word.prefix { $0 == "-" }  // as those of a file's name they would be hidden
      let rest = word.dropFirst(dashes.count)
      return dashes.isEmpty || !rest.isEmpty ? dashes + shellWord(String(rest)) : String(dashes)
    }.joined(separator: " ")
    return "A program stands behind '--': opportune run -- \(program)"
  }

  func validate() throws {
    if let app {
      guard command.isEmpty else {
        throw ValidationError("there are an app '\(app)' and a program: expected one of them")
      }
      if name != nil { throw ValidationError("--name is for a program: an app has its manifest's") }
      if restartable {
        throw ValidationError("--restartable is for a program: an app is started anew by its manifest")
      }
    } else if command.isEmpty {
      throw ValidationError("there is no program: expected opportune run -- PROGRAM, or opportune run APP")
    }
  }

  func run() throws {
    if let app {
      var request = HostRequest(.start, name: app)
      request.foreground = foreground
      let answer: HostAnswer
      do {
        answer = try socket.ask(request, within: patience.limit)
      } catch let failure as Failure {
        // Who forgets the two dashes, as a rule.
        guard failure.description.contains("there is no app"), ProgramFile.find(app).path != nil else {
          throw failure
        }
        throw Failure(failure.description + "; a program is run by: opportune run -- \(shellWord(app))")
      }
      for note in answer.notes ?? [] { printToStandardError("Note: \(note)") }
      let what = answer.pid.map { "was started: process \($0)" } ?? "runs already"
      return try StandardOutput.write("app '\(app.printable)' \(what)\n")
    }
    let program = command[0]
    let path = try Self.find(program)
    var request = HostRequest(.adopt, name: name ?? AppName.derived(from: program))
    request.pid = getpid()
    request.foreground = foreground
    request.alone = true  // it has no children, and nobody need look for them
    request.derived = name == nil
    if restartable { request.restart = try restart(path) }
    let answer = try socket.ask(request, within: patience.limit)
    for note in answer.notes ?? [] { printToStandardError("Note: \(note)") }
    // So that the program, if it joins, finds this host and no other, from whatever folder.
    setenv(HostSocket.variable, try socket.absolutePath(), 1)
    if let mark = answer.mark { setenv("OPPORTUNE_APP", mark, 1) }
    signal(SIGXFSZ, SIG_DFL)  // as this command was started, as a rule
    var arguments = command.map { strdup($0) } + [nil]
    execv(path, &arguments)
    throw Self.failure(program, errno)
  }

  /// How the program is started anew, whose file is at a path.
  private func restart(_ path: String) throws -> RunDeclaration {
    guard let start = getcwd(nil, 0) else {
      throw Failure("--restartable: the folder where this is cannot be told: \(errorText(errno))")
    }
    defer { free(start) }
    let folder = String(cString: start)
    let result = RunDeclaration(
      command: [path.hasPrefix("/") ? path : folder + "/" + path] + command.dropFirst(), folder: folder,
      environment: ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" }.sorted())
    do throws(ProcessHostError) { try result.check() } catch {
      throw Failure("--restartable: \(error.message)")
    }
    return result
  }

  /// As a shell finds it.
  static func find(_ program: String) throws -> String {
    let (path, error) = ProgramFile.find(program)
    guard let path else { throw failure(program, error) }
    return path
  }

  private static func failure(_ program: String, _ number: Int32) -> ExitCode {
    printToStandardError("Error: '\(program)' cannot be run: \(errorText(number))")
    return ExitCode(number == ENOENT ? 127 : 126)
  }
}
