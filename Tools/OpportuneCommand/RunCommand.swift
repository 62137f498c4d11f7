import ArgumentParser
import Glibc
import OpportuneApps
import OpportuneBase
import OpportuneHost

struct RunCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "run", abstract: "Runs a program as an app of the host.",
    discussion: """
      It becomes the program: terminal, signals, job control, folder and exit status are as without it, and its \
      environment has one variable more, OPPORTUNE_APP. The status is 127 where the program is not found, and 126 where \
      it cannot be executed.

      Example: opportune run -- make -j8
      """)

  @OptionGroup var socket: HostSocketOption
  @Flag(help: "In front, not in background.") var foreground = false
  @Option(help: "The app's name. Default: that of the program's file, with a number where it is taken.")
  var name: String?
  @OptionGroup var patience: HostTimeout
  @Argument(parsing: .postTerminator, help: "The program and its arguments, behind '--'.")
  var command: [String] = []

  func validate() throws {
    if command.isEmpty { throw ValidationError("there is no program: expected opportune run -- PROGRAM") }
  }

  func run() throws {
    let program = command[0]
    let path = try Self.find(program)
    var request = HostRequest(.adopt, name: name ?? AppName.derived(from: program))
    request.pid = getpid()
    request.foreground = foreground
    request.alone = true  // it has no children, and nobody need look for them
    request.derived = name == nil
    let answer = try socket.ask(request, within: patience.limit)
    for note in answer.notes ?? [] { printToStandardError("Note: \(note)") }
    if let mark = answer.mark { setenv("OPPORTUNE_APP", mark, 1) }
    signal(SIGXFSZ, SIG_DFL)  // as this command was started, as a rule
    var arguments = command.map { strdup($0) } + [nil]
    execv(path, &arguments)
    throw Self.failure(program, errno)
  }

  /// As a shell finds it.
  static func find(_ program: String) throws -> String {
    guard !program.contains("/") else {
      guard access(program, X_OK) == 0 else { throw failure(program, errno) }
      return program
    }
    let folders = getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
    var found: Int32 = ENOENT
    for folder in folders.split(separator: ":", omittingEmptySubsequences: false) {
      let path = (folder.isEmpty ? "." : String(folder)) + "/" + program
      var status = stat()
      guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { continue }
      if access(path, X_OK) == 0 { return path }
      found = EACCES
    }
    throw failure(program, found)
  }

  private static func failure(_ program: String, _ number: Int32) -> ExitCode {
    printToStandardError("Error: '\(program)' cannot be run: \(errorText(number))")
    return ExitCode(number == ENOENT ? 127 : 126)
  }
}
