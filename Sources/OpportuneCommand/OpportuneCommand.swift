import ArgumentParser
import COpportuneArguments
import Dispatch
import Glibc
import Opportune
import OpportuneText

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
    version: "opportune \(OpportuneBuild.description)",
    subcommands: [
      BenchCommand.self, DoctorCommand.self, FuzzCommand.self, LocationCommand.self, NotifyCommand.self,
      ReplayCommand.self, StatesCommand.self, SwitcherCommand.self,
    ])

  static func main() {
    reserveStandardDescriptors()
    signal(SIGXFSZ, SIG_IGN)  // a limit of file sizes is then an error of the write, which is told
    do {
      var command = try parseAsRoot(arguments)
      guard let asynchronous = command as? any AsyncParsableCommand else { return try command.run() }
      guard access("/proc/self/stat", R_OK) != 0 else { run(asynchronous) }
      guard let doctor = asynchronous as? DoctorCommand else {
        throw Failure("this needs /proc, which is not mounted here: \(whyProc)")
      }
      try doctor.report(doctor.diagnoseWithoutTasks(whyProc))
    } catch {
      Glibc.exit(tell(error))
    }
  }

  /// Its threads look at each other there, once a second.
  private static let whyProc = "Swift's Dispatch ends a program that has tasks without it"

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
      // With the usage below.
      writeToStandardError(text + "\n")
    }
    return status.rawValue
  }
}
