import ArgumentParser
import Glibc
import Opportune

@main
struct OpportuneCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "opportune",
    abstract: "Schedules foreground and background work so that the foreground never waits.",
    subcommands: [
      BenchCommand.self, DoctorCommand.self, FuzzCommand.self, LocationCommand.self, NotifyCommand.self,
      ReplayCommand.self, StatesCommand.self, SwitcherCommand.self,
    ])

  static func main() async {
    // Swift takes the arguments from this file; without it they are empty, and the help would be a riddle.
    if access("/proc/self/cmdline", R_OK) == 0 {
      await Self.main(nil)
    } else {
      diagnoseWithoutArguments()
    }
  }

  private static func diagnoseWithoutArguments() {
    let reason = "opportune: no /proc here, so the arguments cannot be read. This is what 'doctor' says:\n\n"
    _ = write(STDERR_FILENO, reason, reason.utf8.count)
    print(Diagnosis.run().text(), terminator: "")
  }
}
