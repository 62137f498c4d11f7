import ArgumentParser
import COpportuneArguments
import Dispatch
import Glibc
import Opportune
import OpportuneBase

@main
struct OpportuneCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "opportune",
    abstract: "Schedules foreground and background work so that the foreground never waits.",
    discussion: """
      The status is 0 where it did what was asked, 1 where that failed, 64 where it was called wrongly, 74 where its \
      output, or a file that was asked for, could not be written, and 130 where Ctrl-C ended it with what it had. Some \
      commands have more, and say so.
      """,
    version: version(ofCommit: String(cString: opp_build_commit())),
    subcommands: [
      AdoptCommand.self, AppsCommand.self, BenchCommand.self, DoctorCommand.self, FrontCommand.self,
      FuzzCommand.self,
      HibernateCommand.self, HostCommand.self, KeepCommand.self, LocationCommand.self, NotifyCommand.self,
      ReplayCommand.self, ResumeCommand.self, RunCommand.self, ServeCommand.self, StatesCommand.self,
      SuspendCommand.self, SwitcherCommand.self, TerminateCommand.self, WarnCommand.self,
    ])

  /// - Parameter commit: may be empty.
  static func version(ofCommit commit: String) -> String {
    let build = OpportuneBuild.description
    guard !commit.isEmpty, build.hasSuffix(")") else { return "opportune \(build)" }
    return "opportune \(build.dropLast()), commit \(commit))"
  }

  static func main() {
    reserveStandardDescriptors()
    signal(SIGXFSZ, SIG_IGN)  // a limit of file sizes is then an error of the write, which is told
    do {
      var command = try parseAsRoot(arguments)
      if let lack = Lack.find(for: command) {
        guard let doctor = command as? DoctorCommand, lack.isOfTasksAlone else {
          throw Failure("this needs \(lack.what): \(lack.why). \(lack.remedy)")
        }
        return try doctor.report(doctor.diagnoseWithoutTasks(lack))
      }
      guard let asynchronous = command as? any AsyncParsableCommand else { return try command.run() }
      run(asynchronous)
    } catch {
      Glibc.exit(tell(error))
    }
  }

  /// Sendable: who started it has it no more.
  private struct Started: @unchecked Sendable { var command: any AsyncParsableCommand }

  private static func run(_ command: any AsyncParsableCommand) -> Never {
    let started = Started(command: command)
    Task.detached {
      do {
        var started = started
        try await started.command.run()
        Glibc.exit(0)
      } catch {
        Glibc.exit(tell(error))
      }
    }
    dispatchMain()
  }

  private static var arguments: [String] {
    var result: [String] = []
    var next = opp_arguments()
    while let argument = next.pointee {
      result.append(String(cString: argument))
      next += 1
    }
    return result
  }

  /// The message on one line, if there is in it what was given on several: it quotes that. The usage is
  /// below.
  private static func escaped(_ text: String, _ error: any Error) -> String {
    let message = message(for: error)
    let start = "Error: \(message)"
    guard arguments.contains(where: { $0.printable != $0 }), text.utf8.starts(with: start.utf8) else {
      return text
    }
    return "Error: \(message.printable)"
      + String(decoding: text.utf8.dropFirst(start.utf8.count), as: UTF8.self)
  }

  /// Says why a command ended, or the help that was asked for.
  ///
  /// - Returns: the status to exit with.
  static func tell(_ error: any Error) -> Int32 {
    if let failure = error as? OutputFailure {
      // As the signal that ends most programs is told by a shell.
      if failure.isOfNoReader { return 128 + SIGPIPE }
      printToStandardError("Error: \(failure.description)")
      return OutputFailure.status
    }
    let (text, status) = (fullMessage(for: error), exitCode(for: error))
    guard !text.isEmpty else { return status.rawValue }
    if status.isSuccess {
      do throws(OutputFailure) { try StandardOutput.write(text + "\n") } catch { return tell(error) }
    } else if status == .failure {
      printToStandardError(text)
    } else {
      writeToStandardError(escaped(text, error) + "\n")
      if let hint = RunCommand.hint(for: arguments) { writeToStandardError(hint + "\n") }
    }
    return status.rawValue
  }
}
