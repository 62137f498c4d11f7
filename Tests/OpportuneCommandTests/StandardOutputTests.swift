import ArgumentParser
import Foundation
import Opportune
import TestSupport
import Testing

@testable import OpportuneCommand

/// Every write of every command is checked.
@Suite(.bounded, .timeLimit(.minutes(10)), .serialized) struct StandardOutputTests {
  /// Steers a terminal, ends lines and strings, and means something in HTML.
  static let name = "ho\u{0}me\u{1B}]0;x\u{7}\u{9B}2J\r\n<b>\u{202E}"
  static let spelled = #"ho\u{0}me\u{1B}]0;x\u{7}\u{9B}2J\r\n<b>\u{202E}"#

  /// A track through a fence of that name, and settings of an app of that name.
  private func files() throws -> (folder: Folder, track: [String], settings: String) {
    let folder = try Folder()
    let home = "\"geometry\":{\"type\":\"Point\",\"coordinates\":[8,50]}"
    let name = String(decoding: try JSONEncoder().encode(Self.name), as: UTF8.self)
    let fence = "{\"type\":\"Feature\",\(home),\"properties\":{\"name\":\(name),\"radius\":50}}"
    let track = "timestamp,latitude,longitude,accuracy\n1581041700,50.00126,8,2\n1581041701.5,50,8,2\n"
    let settings = folder.path("location.json")
    try LocationSettingsFile(settings).update { $0.apps[Self.name] = .denied }
    return (
      folder,
      [
        "--track", try folder.file("track.csv", track.utf8), "--fences",
        try folder.file("fences.geojson", fence.utf8), "--confidence", "0.7",
      ], settings
    )
  }

  private func replay(_ track: [String]) -> [String] {
    ["location", "replay", track[1]] + track[2...] + ["--continuous"]
  }

  private var recording: String {
    let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    return tests.appendingPathComponent("OpportuneReplayTests/Fixtures/android-app-usage.db").path
  }

  /// Each way in which a command prints.
  private func commands(_ track: [String], _ settings: String) -> [[String]] {
    [
      ["--help"], ["--version"], ["help", "bench", "io"], ["bench"],
      ["--generate-completion-script", "bash"],
      ["states"], ["states", "--json"], ["states", "--mermaid"], ["states", "--markdown"],
      ["states", "--rules"],
      ["doctor"], ["doctor", "--json"], ["fuzz", "--list"], ["fuzz", "--list", "--json"],
      ["fuzz", "--target", "io-scheduler", "--time", "0.1", "--threads", "1"],
      ["location", "settings", settings], ["location", "settings", settings, "--json"],
      replay(track), replay(track) + ["--json"], ["location", "monitor"] + track,
      ["location", "monitor", "--json"] + track, ["replay", recording], ["replay", recording, "--json"],
      ["replay", recording, "--policy", "lru", "--memory", "1G"],
      ["bench", "memory", "--figure", "pin", "--mebibytes", "4", "--repeats", "1"],
      ["bench", "memory", "--figure", "pin", "--mebibytes", "4", "--repeats", "1", "--json"],
    ]
  }

  @Test func aFullDiskIsToldByEveryCommand() throws {
    let (folder, track, settings) = try files()
    defer { withExtendedLifetime(folder) {} }
    for arguments in commands(track, settings) {
      let ran = try Spawned(arguments, by: "exec \"$@\" >/dev/full")
      #expect(ran.status == OutputFailure.status, "\(arguments): \(ran.errors)")
      let sentence = "Error: standard output could not be written: No space left on device\n"
      #expect(ran.errors.hasSuffix(sentence), "\(arguments): \(ran.errors)")
    }
    #expect(OutputFailure.status == 74)
  }

  @Test func theSwitcherAndAPushOfAHostAreCheckedToo() throws {
    let (folder, path) = try { ($0, $0.path("socket")) }(Folder())
    defer { withExtendedLifetime(folder) {} }
    let apps = [SwitcherEntry(app: Self.name, state: "suspended", tasks: 0, snapshot: nil)]
    let socket = try PushSocket(
      path: path, receive: { _ in "no\u{1B}[2J\u{9B}" }, control: { _ in SwitcherAnswer(apps) })
    defer { withExtendedLifetime(socket) {} }
    for form in [[], ["--json"]] {
      #expect(try Spawned(["switcher", path, "list"] + form, by: "exec \"$@\" >/dev/full").status == 74)
      let ran = try Spawned(["switcher", path, "list"] + form)
      #expect(ran.status == 0 && ran.output.steering.isEmpty, "\(ran.output)")
      #expect(
        form.isEmpty ? ran.output.contains("\n\(Self.spelled)  suspended") : ran.output.contains("\\u009b2J"))
    }
    let refused = try Spawned(["notify", "--socket", path, "notes", "mail"])
    #expect(
      refused.status == 1 && refused.errors == "Error: the host refused: no" + #"\u{1B}[2J\u{9B}"# + "\n",
      "\(refused.errors)")
  }

  /// `| head` is done, and nobody is there to be told. Whether the signal comes or not: service managers
  /// ignore it.
  @Test func aReaderWhoHasGoneIsNoMistake() throws {
    let (folder, track, _) = try files()
    defer { withExtendedLifetime(folder) {} }
    for arguments in [["states"], ["doctor", "--json"], ["--help"], ["location", "monitor"] + track] {
      for script in ["exec \"$@\"", "trap '' PIPE; exec \"$@\""] {
        let pipe = Pipe()
        try pipe.fileHandleForReading.close()
        let ran = try Spawned(arguments, by: script, output: pipe.fileHandleForWriting.fileDescriptor)
        #expect(ran.status == 128 + SIGPIPE, "\(arguments), \(script)")
        #expect(!ran.errors.contains("rror"), "\(ran.errors)")
      }
    }
  }

  /// The first file that is opened would else be standard output.
  @Test func whoClosesStandardOutputIsToldAndNoFileTakesItsPlace() throws {
    let (folder, track, _) = try files()
    let page = folder.path("page.html")
    for closed in [">&-", "<&- >&-"] {
      let ran = try Spawned(replay(track) + ["--html", page], by: "exec \"$@\" \(closed)")
      #expect(
        ran.status == 74 && ran.errors.hasSuffix("could not be written: Bad file descriptor\n"),
        "\(ran.errors)")
      let text = try String(contentsOfFile: page, encoding: .utf8)
      #expect(text.hasPrefix("<!DOCTYPE html>") && text.hasSuffix("</html>\n"))
    }
    let silent = try Spawned(replay(track) + ["--html", page], by: "exec \"$@\" 2>&-")
    #expect(silent.status == 0 && silent.output.contains("1 crossing"), "\(silent.output)")
  }

  @Test func aFileThatCannotBeWrittenIsToldLikewise() throws {
    let (folder, track, settings) = try files()
    defer { withExtendedLifetime(folder) {} }
    let pin = ["bench", "memory", "--figure", "pin", "--mebibytes", "4", "--repeats", "1"]
    for (arguments, part) in [
      (
        replay(track) + ["--html", "/dev/full"],
        "'/dev/full' could not be written to its end: No space left on device"
      ),
      (
        replay(track) + ["--html", "/nonexistent/page"], "'/nonexistent/page' cannot be written: No such file"
      ),
      (replay(track) + ["--html", "/tmp"], "'/tmp' cannot be written: Is a directory"),
      (
        ["replay", recording, "--html", "/dev/full"],
        "'/dev/full' could not be written to its end: No space left"
      ),
      (
        ["replay", recording, "--trace-events", "/dev/full"],
        "'/dev/full' could not be written to its end: No space"
      ),
      (pin + ["--json", "/nonexistent/report"], "'/nonexistent/report' cannot be written: No such file"),
      (
        pin + ["--json", "/dev/full"], "'/dev/full' could not be written to its end: No space left on device"
      ),
      (
        ["bench", "latency", "--html", "/nonexistent/page"],
        "'/nonexistent/page' cannot be written: No such file"
      ),
      (["fuzz", "--output", "/nonexistent/file"], "'/nonexistent/file' cannot be written: No such file"),
      (
        ["location", "settings", "/proc/none/s", "set", "a", "always"],
        "'/proc/none/s' cannot be written: No such"
      ),
    ] {
      let ran = try Spawned(arguments)
      #expect(ran.status == 74 && ran.errors.contains(part), "\(arguments): \(ran.status), \(ran.errors)")
    }
    // Files of that size at most: as on a full disk.
    let full = try Spawned(
      ["location", "settings", settings, "set", "b", "always"], by: "ulimit -f 0; trap '' XFSZ; \"$@\"")
    #expect(full.status == 74 || full.errors.isEmpty, "\(full.errors)")
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: folder.url.path).allSatisfy {
        !$0.hasSuffix(".new")
      })
  }

  /// A pipe that nobody has open at its other end would be waited for.
  @Test func whatIsNoFileIsRefusedAndNotWaitedFor() throws {
    let (folder, track, settings) = try files()
    let (pipe, socket) = (folder.path("pipe"), folder.path("socket"))
    #expect(mkfifo(pipe, 0o600) == 0)
    let host = try PushSocket(path: socket, receive: { _ in nil })
    defer { withExtendedLifetime(host) {} }
    let pin = ["bench", "memory", "--figure", "pin", "--mebibytes", "4", "--repeats", "1"]
    for (arguments, status, part) in [
      (
        replay(track) + ["--html", pipe], 74,
        "'\(pipe)' cannot be written: it is a pipe that nobody reads, expected a file"
      ),
      (
        replay(track) + ["--html", socket], 74,
        "'\(socket)' cannot be written: it is a socket, expected a file"
      ),
      (["replay", recording, "--html", pipe], 74, "it is a pipe that nobody reads"),
      (["replay", recording, "--trace-events", pipe], 74, "it is a pipe that nobody reads"),
      (["replay", recording, "--html", "-"], 64, "'-' is not standard output here"),
      (pin + ["--json", pipe], 74, "it is a pipe that nobody reads"),
      (["fuzz", "--output", pipe], 74, "it is a pipe that nobody reads"),
      (["bench", "latency", "--html", pipe], 74, "it is a pipe that nobody reads"),
      (["bench", "io", "--svg", pipe], 74, "it is a pipe that nobody reads"),
      (["fuzz", "--replay", pipe], 2, "'\(pipe)' is a pipe that nobody writes to, expected a file"),
      (["location", "replay", pipe] + track[2...], 1, "is a pipe that nobody writes to, expected a file"),
      (
        ["location", "settings", pipe, "set", "a", "always"], 1,
        "is a pipe that nobody writes to, expected a file"
      ),
      (["location", "settings", socket], 1, "'\(socket)' cannot be read: it is a socket, expected a file"),
      (["location", "settings", "/tmp"], 1, "'/tmp' is a folder, expected a file"),
      (["fuzz", "--replay", "/dev/zero"], 2, "'/dev/zero' is a device, expected a file"),
      (["replay", pipe], 1, "is a pipe, expected a file"),
    ] {
      let ran = try Spawned(arguments)
      #expect(ran.status == status && ran.errors.contains(part), "\(arguments): \(ran.status), \(ran.errors)")
    }
    #expect(try LocationSettingsFile(settings).read().apps.count == 1)
  }

  /// As a shell's `>(…)` and `<(…)` make them; and standard output by its name.
  @Test func aPipeThatSomebodyHasOpenIsOne() throws {
    let (folder, track, settings) = try files()
    let page = folder.path("page.html")
    #expect(mkfifo(folder.path("out"), 0o600) == 0 && mkfifo(folder.path("in"), 0o600) == 0)
    let out =
      "cat '\(folder.path("out"))' > '\(page)' & exec 3>'\(folder.path("out"))'; \"$@\" 3>&-; s=$?; exec 3>&-; wait; exit $s"
    let ran = try Spawned(replay(track) + ["--html", folder.path("out")], by: out)
    #expect(ran.status == 0 && ran.output.contains("1 crossing"), "\(ran.errors)")
    let text = try String(contentsOfFile: page, encoding: .utf8)
    #expect(text.hasPrefix("<!DOCTYPE html>") && text.hasSuffix("</html>\n"))
    for input in ["cat '\(settings)' | \"$@\" /dev/stdin", "exec \"$@\" /dev/stdin <'\(settings)'"] {
      let ran = try Spawned(["location", "settings"], by: input)
      #expect(ran.status == 0 && ran.output.contains("  denied\n"), "\(input): \(ran.errors)")
    }
    // The text would be written over it, or into its middle.
    for script in ["exec \"$@\"", "\"$@\" | cat; exit 74"] {
      let ran = try Spawned(replay(track) + ["--html", "/dev/stdout"], by: script)
      let sentence =
        "Error: '/dev/stdout' is standard output, which has its own text: expected another file\n"
      #expect(ran.status == 74 && ran.errors.hasSuffix(sentence) && ran.output.isEmpty, "\(ran.errors)")
    }
    #expect(try Spawned(replay(track) + ["--html", "/dev/null"], by: "exec \"$@\" >/dev/null").status == 0)
  }

  /// Some file systems say only as a file is closed that there was no room.
  @Test func anErrorOfClosingIsTold() throws {
    let (folder, path) = try { ($0, $0.path("report")) }(Folder())
    defer { withExtendedLifetime(folder) {} }
    let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    let error = #expect(throws: OutputFailure.self) {
      try finish(file, "'report'", with: "text") { file in
        close(file)
        errno = EDQUOT
        return -1
      }
    }
    #expect(error?.description == "'report' could not be written to its end: Disk quota exceeded")
    // Of two errors the first.
    let full = open("/dev/full", O_WRONLY | O_CLOEXEC)
    let first = #expect(throws: OutputFailure.self) {
      try finish(full, "'report'", with: "text") { file in
        close(file)
        errno = EDQUOT
        return -1
      }
    }
    #expect(first?.description == "'report' could not be written to its end: No space left on device")
  }

  /// A usage error quotes what was given; ArgumentParser's own too.
  @Test func aUsageErrorIsOnALineOfItsOwn() throws {
    let (given, spelled) = ("a\n\u{1B}[2Jb\r", #"a\n\u{1B}[2Jb\r"#)
    for arguments in [
      ["states", given], ["states", "--" + given], ["states", "--state", given], ["fuzz", "--time", given],
      ["fuzz", "--target", "runq,\(given)"], ["location", "settings", "s", given],
      ["bench", "location", "--fixes", given],
      ["replay", recording, "--manifest", given], [given],
    ] {
      let ran = try Spawned(arguments)
      let lines = ran.errors.split(separator: "\n", omittingEmptySubsequences: false)
      #expect(ran.status == 64 && ran.errors.steering.isEmpty, "\(arguments): \(ran.errors)")
      #expect(
        lines.first?.hasPrefix("Error: ") == true && lines.first?.contains(spelled) == true, "\(ran.errors)")
      #expect(
        lines.dropFirst().first?.hasPrefix("Usage: ") == true || lines.contains { $0.hasPrefix("Help: ") })
    }
    // Lines of its own stay.
    let shell = try Spawned(["--generate-completion-script", "fish2"])
    #expect(shell.errors.contains("'fish2'.\nPlease use"), "\(shell.errors)")
  }

  /// Swift's Dispatch traps where it gets none.
  @Test func fewDescriptorsAreToldAndDoctorGoesOn() throws {
    for (count, arguments, hasTasks) in [
      (12, ["bench", "latency"], true), (20, ["bench", "io"], true), (5, ["replay", recording], false),
      (12, ["states"], false), (5, ["doctor"], true),
    ] {
      let ran = try Spawned(arguments, by: "ulimit -n \(count); exec \"$@\"")
      let least = hasTasks ? Lack.descriptors : Lack.fewestDescriptors
      let part =
        "this needs \(least) descriptors, and the limit of open files (RLIMIT_NOFILE) is \(count) here"
      #expect(
        ran.status == 1 && ran.errors.contains(part) && ran.errors.contains("ulimit -n"), "\(ran.errors)")
    }
    let doctor = try Spawned(["doctor"], by: "ulimit -n 20; exec \"$@\"")
    #expect(doctor.status == 0 && doctor.output.contains("20 by RLIMIT_NOFILE"), "\(doctor.errors)")
    #expect(doctor.output.contains("not tried: Swift's Dispatch"))
    // Raised where that is allowed.
    let pin = ["bench", "memory", "--figure", "pin", "--mebibytes", "4", "--repeats", "1"]
    #expect(try Spawned(pin, by: "ulimit -Sn 6; exec \"$@\"").status == 0)
    #expect(try Spawned(["replay", recording], by: "ulimit -n 16; exec \"$@\"").status == 0)
  }

  @Test func whatSteersATerminalNeverReachesIt() throws {
    let (folder, track, settings) = try files()
    let page = folder.path("page.html")
    for (arguments, part) in [
      (replay(track) + ["--html", page], "  enter  \(Self.spelled)  ("),
      (["location", "monitor"] + track, "  enter  \(Self.spelled)  ("),
      (["location", "monitor", "--json"] + track, #""fence":"ho\u0000me\u001b"#),
      (["location", "settings", settings], "\(Self.spelled)  denied\n"),
      (["location", "settings", settings, "--json"], #"\u009b2J"#),
    ] {
      let ran = try Spawned(arguments)
      #expect(ran.status == 0 && ran.output.contains(part), "\(arguments): \(ran.output) \(ran.errors)")
      #expect(ran.output.steering.isEmpty && ran.errors.steering.isEmpty, "\(arguments)")
    }
    let html = try String(contentsOfFile: page, encoding: .utf8)
    #expect(html.hasSuffix("</html>\n") && html.steering.isEmpty)
    let inPage = Self.spelled.replacing("<b>", with: "&lt;b&gt;").replacing(#"\n"#, with: "\n")
    #expect(html.contains(inPage) && !html.contains("<b>"))
    let path = "/nonexistent/\u{1B}[2J\u{202E}\na"
    for arguments in [
      ["location", "settings", path], ["replay", path], ["fuzz", "--replay", path],
      ["switcher", path, "list"],
      ["states", path], ["bench", "location", "--track", path],
    ] {
      let ran = try Spawned(arguments)
      #expect(ran.status != 0 && ran.errors.contains(#"\u{1B}[2J\u{202E}"#), "\(arguments): \(ran.errors)")
      #expect(ran.errors.steering.isEmpty, "\(arguments)")
    }
  }

  @Test func theVersionIsTold() throws {
    let ran = try Spawned(["--version"])
    let kind = OpportuneBuild.isDebug ? "debug" : "release"
    // A build by the scripts has its commit as well.
    #expect(ran.status == 0 && ran.output == OpportuneCommand.configuration.version + "\n")
    #expect(
      OpportuneCommand.version(ofCommit: "") == "opportune \(OpportuneBuild.version) (\(kind) build)")
    #expect(
      OpportuneCommand.version(ofCommit: "0123abc")
        == "opportune \(OpportuneBuild.version) (\(kind) build, commit 0123abc)")
    #expect(try Spawned(["bench", "io", "--version"]).output == ran.output)
    #expect(OpportuneBuild.version.wholeMatch(of: /\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?/) != nil)
  }
}
