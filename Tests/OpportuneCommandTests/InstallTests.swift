import Foundation
import TestSupport
import Testing

/// `make install` and `make uninstall`, with the command that was built beside the tests.
@Suite(.bounded) struct InstallTests {
  private static let files = [
    "bin/opportune", "lib/systemd/system/opportune-host.service", "lib/systemd/user/opportune-host.service",
    "share/bash-completion/completions/opportune", "share/dbus-1/system.d/org.opportune.Host1.conf",
    "share/fish/vendor_completions.d/opportune.fish",
    "share/man/man1/opportune.1", "share/zsh/site-functions/_opportune",
  ]
  private static let explorer = [
    "bin/opportune-explore", "include/opportune-explorer/opp_explorer.h",
    "include/opportune-explorer/opp_linear.h", "include/opportune-explorer/opp_own.h",
    "include/opportune-explorer/opp_sync_checked.h", "lib/libopportune-explorer.a",
    "share/doc/opportune-explore/examples/queue.c", "share/man/man1/opportune-explore.1",
  ]
  private static func has(_ program: String) -> Bool {
    let folders = ["/usr/bin", "/bin", "/usr/local/bin"]
    return folders.contains { FileManager.default.isExecutableFile(atPath: $0 + "/" + program) }
  }

  private static func find(_ program: String) -> Bool {
    (try? run("sh", ["-c", "command -v \(program)"]).status) == 0
  }

  private static let root = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()

  /// Where something is installed, which goes with it.
  private final class Installed {
    let folder: Folder
    let prefix: String
    let destination: String

    init(prefix: String? = nil) throws {
      folder = try Folder()
      self.prefix = prefix ?? folder.url.path + "/prefix"
      destination = prefix == nil ? "" : folder.url.path + "/destination"
      try call("install")
    }

    @discardableResult func call(_ target: String) throws -> String {
      let (status, text) = try InstallTests.run(
        "make", ["-s", "-C", InstallTests.root.path, target],
        ["PREFIX": prefix, "DESTDIR": destination, "OPPORTUNE_BINARY": try builtProgram()])
      #expect(status == 0, "\(text)")
      return text
    }

    var path: String { destination + prefix }
    /// All of the command that is no folder, from there on.
    var files: [String] { all.filter { !Self.isOfLibrary($0) && !$0.contains("explore") } }
    /// Of the explorer for code of others.
    var explorer: [String] { all.filter { $0.contains("explore") } }
    /// Of the C libraries, which `scripts/test-clibrary` looks at in full.
    var library: [String] { all.filter(Self.isOfLibrary) }

    private static func isOfLibrary(_ file: String) -> Bool {
      ["opportune-core", "OpportuneCore", "opportune-client"].contains { file.contains($0) }
    }

    private var all: [String] {
      let all = FileManager.default.enumerator(atPath: path)?.compactMap { $0 as? String } ?? []
      return all.filter { file in
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path + "/" + file, isDirectory: &isFolder)
          ? !isFolder.boolValue : true
      }.sorted()
    }
  }

  /// Runs a program to its end, which comes after two minutes in any case.
  private static func run(
    _ program: String, _ arguments: [String], _ variables: [String: String] = [:]
  ) throws -> (status: Int32, text: String) {
    var environment = ProcessInfo.processInfo.environment
    for name in ["MAKEFLAGS", "MAKELEVEL", "MFLAGS"] { environment[name] = nil }
    let process = Process(
      ["/usr/bin/env", "timeout", "-k", "5", "120", program] + arguments,
      environment: environment.merging(variables) { $1 })
    let output = Pipe()
    (process.standardOutput, process.standardError) = (output, output)
    try process.run()
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    return (process.terminationStatus, text)
  }

  @Test func whatIsInstalledIsWhatIsTakenAway() throws {
    let installed = try Installed(prefix: "/usr")
    #expect(installed.files == Self.files)
    #expect(installed.library.contains("include/opportune-core.h"))
    #expect(installed.explorer == Self.explorer)
    // The path that it will have, not the one where it is put together.
    for kind in ["system", "user"] {
      let unit = try String(
        contentsOfFile: installed.path + "/lib/systemd/\(kind)/opportune-host.service", encoding: .utf8)
      #expect(unit.contains("\nExecStart=/usr/bin/opportune host\n"))
      #expect(unit.contains("\nExecStopPost=/usr/bin/opportune host --sweep\n"))
      #expect(unit.contains("\nDelegate=yes\n") && unit.contains("\nType=notify\n") && !unit.contains("@"))
    }
    let (status, version) = try Self.run(installed.path + "/bin/opportune", ["--version"])
    #expect(status == 0 && version.hasPrefix("opportune "))
    // Others' files stay, as does what was there before.
    let other = installed.path + "/share/man/man1/other.1"
    try Data("x".utf8).write(to: URL(filePath: other))
    try installed.call("install")
    #expect(installed.files == (Self.files + ["share/man/man1/other.1"]).sorted())
    try installed.call("uninstall")
    #expect(installed.files == ["share/man/man1/other.1"] && installed.library.isEmpty)
    #expect(installed.explorer.isEmpty)
    #expect(!FileManager.default.fileExists(atPath: installed.path + "/include/opportune-explorer"))
    try installed.call("uninstall")
  }

  /// The system's bus looks below /usr/share and /etc, and not below /usr/local.
  @Test func thePolicyIsWhereTheBusReadsIt() throws {
    let installed = try Installed(prefix: "/usr/local")
    let policy = installed.destination + "/etc/dbus-1/system.d/org.opportune.Host1.conf"
    #expect(FileManager.default.fileExists(atPath: policy))
    #expect(!installed.files.contains { $0.contains("dbus") })
    try installed.call("uninstall")
    #expect(!FileManager.default.fileExists(atPath: policy))
  }

  @Test func pathsThatAreNoneAreRefused() throws {
    for variables in [["PREFIX": "usr"], ["DESTDIR": "here"]] {
      let (status, text) = try Self.run(
        Self.root.path + "/scripts/install", [], ["OPPORTUNE_BINARY": "/bin/true"].merging(variables) { $1 })
      #expect(status == 1 && text.contains("expected an absolute path"), "\(text)")
    }
    let (status, text) = try Self.run(
      Self.root.path + "/scripts/install", ["--remove"], ["OPPORTUNE_BINARY": "/bin/true"])
    #expect(status == 1 && text.contains("'--remove' is not known"))
  }

  /// By what is installed alone: a copy of its example with a bug is found out, and --help names the example.
  @Test(.enabled(if: find("clang"), "clang is not in PATH")) func theExplorerExploresOnesOwnQueue() throws {
    let installed = try Installed()
    let explore = installed.path + "/bin/opportune-explore"
    let (status, help) = try Self.run(explore, ["--help"])
    let example = installed.path + "/share/doc/opportune-explore/examples/queue.c"
    #expect(status == 0 && help.hasPrefix("Usage: opportune-explore FILE.c") && help.contains(example))
    #expect(try Self.run(explore, [example, "--ms", "2000"]).status == 0)
    let wrong = installed.folder.url.path + "/queue.c"
    let text = try String(contentsOfFile: example, encoding: .utf8)
    try Data(text.replacing("at + 1, release)", with: "at + 1, relaxed)").utf8).write(
      to: URL(filePath: wrong))
    let (found, told) = try Self.run(explore, [wrong])
    #expect(found == 1 && told.contains("FOUND: a data race"), "\(told.prefix(500))")
    for arguments in [[], ["queue"], [wrong + ".c"], [wrong, "--often", "1"]] {
      let (status, text) = try Self.run(explore, arguments)
      #expect(status == 64 && !text.isEmpty, "\(arguments): \(text)")
    }
  }

  @Test(.enabled(if: has("groff"), "groff is not installed")) func theManualPageHasNoFault() throws {
    let installed = try Installed()
    let page = installed.path + "/share/man/man1/opportune.1"
    let (status, text) = try Self.run("groff", ["-man", "-ww", "-Tutf8", "-P-cbou", page])
    #expect(status == 0)
    #expect(!text.contains("warning") && !text.contains("error:"), "\(text.prefix(500))")
    // All commands, and no markup that was taken for text.
    for part in [
      "opportune host", "--manifests <folder>", "opportune location monitor", "--grace <grace>", "refuse,",
      "OPPORTUNE_SOCKET",
    ] { #expect(text.contains(part), "\(part)") }
    #expect(!text.contains("\\f") && !text.contains("\\-"))
    for page in [page, installed.path + "/share/man/man1/opportune-explore.1"] {
      let (silent, faults) = try Self.run("groff", ["-man", "-ww", "-Tutf8", "-z", page])
      #expect(silent == 0 && faults.isEmpty, "\(faults)")
    }
  }

  @Test(.enabled(if: has("bash"), "bash is not installed")) func bashCompletes() throws {
    let installed = try Installed()
    let script = """
      set -u; source "$0/share/bash-completion/completions/opportune"
      complete -p opportune
      """
    let (status, text) = try Self.run("bash", ["--norc", "-c", script, installed.path])
    #expect(status == 0 && text.hasPrefix("complete ") && text.contains("opportune"), "\(text)")
  }

  @Test(.enabled(if: has("zsh"), "zsh is not installed")) func zshReadsItsCompletions() throws {
    let installed = try Installed()
    let (status, text) = try Self.run("zsh", ["-n", installed.path + "/share/zsh/site-functions/_opportune"])
    #expect(status == 0 && text.isEmpty, "\(text)")
  }

  @Test(.enabled(if: has("fish"), "fish is not installed")) func fishReadsItsCompletions() throws {
    let installed = try Installed()
    let (status, text) = try Self.run(
      "fish", ["--no-execute", installed.path + "/share/fish/vendor_completions.d/opportune.fish"])
    #expect(status == 0 && text.isEmpty, "\(text)")
  }

  @Test(
    .enabled(if: has("systemd-analyze"), "systemd-analyze is not installed"), arguments: ["system", "user"])
  func systemdUnderstandsTheUnits(kind: String) throws {
    let installed = try Installed()
    let unit = installed.path + "/lib/systemd/\(kind)/opportune-host.service"
    let options = kind == "user" ? ["--user"] : []
    func verify(_ path: String) throws -> (status: Int32, text: String) {
      try Self.run(
        "systemd-analyze", options + ["verify", "--man=no", path],
        ["XDG_RUNTIME_DIR": installed.folder.url.path])
    }
    let (status, text) = try verify(unit)
    // A key that it does not know is a warning alone.
    #expect(status == 0 && !text.contains("opportune-host"), "\(text)")
    // It does look: a misspelt key is named.
    let wrong = installed.folder.url.path + "/opportune-wrong.service"
    let original = try String(contentsOfFile: unit, encoding: .utf8)
    try Data(original.replacing("Delegate=", with: "Delgate=").utf8).write(to: URL(filePath: wrong))
    #expect(try verify(wrong).text.contains("Delgate"))
  }
}
