import ArgumentParser
import FoundationEssentials
import Glibc
import Opportune
import OpportuneBase
import OpportuneHost
import ToolSupport

struct DoctorCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "doctor",
    abstract: "Says what the machine gives Opportune, what it lacks, what that costs and how to mend it.",
    discussion: """
      Looks, and starts a scheduler for a moment to see whether it does as it should. Nothing is changed (a file \
      of 1 MiB in the folder of --store is gone again at once), and no privilege is needed. What it finds holds for the \
      user and the container that it runs in, so run it as your program runs. The exit status is 0 whatever is found.
      """)

  @Flag(help: "Print JSON.") var json = false
  @Option(help: "The folder that a hibernation store is, or is to be, in.", completion: .directory)
  var store = "."
  @Flag(help: "Exit with status 1 if anything is missing.") var strict = false

  func run() async throws { try report(await diagnose()) }

  func report(_ diagnosis: Diagnosis) throws {
    if json {
      try StandardOutput.write(json: jsonText(of: diagnosis))
    } else {
      let terminal = Terminal.standardOutput
      try StandardOutput.write(
        diagnosis.text(columns: terminal.columns, usesColor: terminal.usesColor), as: .styled)
    }
    if strict, diagnosis.count(.missing) > 0 { throw ExitCode(1) }
  }

  func diagnose() async -> Diagnosis { completed(await Diagnosis.runWithSelfTest()) }

  /// What can be found where no task can run.
  func diagnoseWithoutTasks(_ lack: Lack) -> Diagnosis {
    var diagnosis = Diagnosis.run()
    diagnosis.add([
      Diagnosis.Finding(
        .selfTest, "Scheduler", .missing, found: "not tried: \(lack.why)",
        cost: "Nothing is known of it here.",
        remedy: lack.remedy)
    ])
    return completed(diagnosis)
  }

  private func completed(_ diagnosis: Diagnosis) -> Diagnosis {
    var diagnosis = diagnosis
    diagnosis.add(
      [PowerEvents.finding()] + displayFindings() + [
        busFinding(), confinementFinding(), limitFinding(), storageFinding(),
      ]
        + Diagnosis.memoryFindings(storeFolder: store))
    return diagnosis
  }
}

/// Whose display `opportune host` would follow from here.
private func displayFindings() -> [Diagnosis.Finding] {
  // The choice of `auto` is never refused.
  guard let choice = try? FrontChoice("auto", environment: ProcessInfo.processInfo.environment) else {
    return []
  }
  switch choice.look(within: .milliseconds(500)) {
  case .nothing(let why): return [Diagnosis.Finding(.system, "display", .ok, found: why)]
  case .answers(let name):
    return [
      Diagnosis.Finding(.system, "display", .ok, found: "\(name.printable), which opportune host follows")
    ]
  case .doesNotAnswer(let name):
    return [
      Diagnosis.Finding(
        .system, "display", .degraded, found: "\(name.printable) does not answer, or refuses",
        cost: "opportune host knows who is in front by command alone until it does.",
        remedy: "Look at DISPLAY, XAUTHORITY and SWAYSOCK.")
    ]
  }
}

/// Whether shells would find `opportune host` on D-Bus from here.
private func busFinding() -> Diagnosis.Finding {
  let cost = "Shells ask opportune host by its socket alone."
  switch HostBus.look() {
  case .answers(let name):
    return Diagnosis.Finding(.system, "D-Bus", .ok, found: "\(name) answers, for opportune host")
  case .noLibrary:
    return Diagnosis.Finding(
      .system, "D-Bus", .degraded, found: "there is no libsystemd (libsystemd.so.0)", cost: cost,
      remedy: "Install it: apt install libsystemd0.")
  case .noBus(let name, let why):
    return Diagnosis.Finding(
      .system, "D-Bus", .degraded, found: "\(name) does not answer (\(why))", cost: cost,
      remedy: "Install and start D-Bus, as apt install dbus does.")
  }
}

/// Whether `opportune host` gives up what it does not need; the one that runs, where one does.
private func confinementFinding() -> Diagnosis.Finding {
  let running = HostSocket.standardPath().flatMap {
    try? HostRequest(.apps).send(to: $0, within: .milliseconds(500))
  }
  let topic = "what the host gives up"
  if running?.confined == true {
    return Diagnosis.Finding(
      .system, topic, .ok, found: "opportune host runs under its filter of system calls")
  }
  return hostFinding(
    topic, lack: running == nil ? Confinement.lack : "the host that runs has no filter of system calls",
    may: "give up system calls that it does not make",
    cost: "A fault in opportune host can be used for more.",
    remedy: "A kernel with CONFIG_SECCOMP_FILTER; the host's first lines say what failed.")
}

/// Whether `opportune host` could take devices and network from background here.
private func limitFinding() -> Diagnosis.Finding {
  hostFinding(
    "limits of background", lack: LimitSupport.lack(), may: "keep background from devices and network",
    cost: "Programs of opportune host open graphics, cameras and sound behind too, and keep their network.",
    remedy: "Run the host as root, on Linux 5.7 or later, where control groups of version 2 are mounted.")
}

/// Whether `opportune host` could hold what background reads and writes to a rate here.
private func storageFinding() -> Diagnosis.Finding {
  hostFinding(
    "storage of background", lack: StorageSupport.lack(),
    may: "hold what background reads and writes to a rate",
    cost: "--background-storage of opportune host, and OpportuneStorage in manifests, do nothing.",
    remedy: "Run the host as root, where one of these is mounted and handed down to it.")
}

/// - Parameters:
///   - lack: why `opportune host` may not; `nil`: it may.
///   - may: what.
private func hostFinding(
  _ topic: String, lack: String?, may: String, cost: String, remedy: String
) -> Diagnosis.Finding {
  guard let lack else {
    return Diagnosis.Finding(.system, topic, .ok, found: "opportune host may \(may)")
  }
  return Diagnosis.Finding(.system, topic, .degraded, found: lack, cost: cost, remedy: remedy)
}

/// What standard output is written to.
private struct Terminal {
  var columns = 100
  var usesColor = false

  static var standardOutput: Terminal {
    var terminal = Terminal()
    guard isatty(STDOUT_FILENO) == 1 else { return terminal }
    // https://no-color.org
    terminal.usesColor = (getenv("NO_COLOR").map { $0.pointee == 0 } ?? true) && !isDumb
    var size = winsize()
    if ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 {
      terminal.columns = min(120, Int(size.ws_col))
    }
    return terminal
  }

  private static var isDumb: Bool { getenv("TERM").map { String(cString: $0) == "dumb" } ?? true }
}
