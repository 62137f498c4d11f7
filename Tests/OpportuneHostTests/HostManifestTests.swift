import Foundation
import OpportuneApps
import Synchronization
import TestSupport
import Testing

@testable import OpportuneHost

/// Files that declare apps: desktop entries, property lists and JSON.
// R-MAN-07
@Suite(.bounded) struct HostManifestTests {
  private func read(_ text: String, as file: String = "/x/mail.desktop") throws -> HostManifest? {
    try HostManifest(file: file, bytes: Array(text.utf8))
  }

  private func desktop(_ lines: String...) -> String {
    "[Desktop Entry]\nType=Application\nName=Mail\n" + lines.joined(separator: "\n") + "\n"
  }

  private func refusal(_ text: String, as file: String = "/x/mail.desktop") -> HostManifestError? {
    do {
      _ = try read(text, as: file)
      return nil
    } catch { return error as? HostManifestError }
  }

  // R-MAN-01 R-MAN-02 R-MAN-04 R-TASK-04
  @Test func aDesktopEntrySaysWhatIsStartedAndHowItIsTreated() throws {
    let text = """
      # before the group
      [Desktop Entry]
      Type = Application
      Name=Mail & more
      Name[de]=Post
      Exec=env A=b mailer
      Exec[de]=never
      Icon=mail\\sicon
      Path=/var/mail\\sbox
      Terminal=false
      NoDisplay=true
      X-Opportune-Name=post
      X-Opportune-BackgroundModes=voip;audio;fetch;radio;
      X-Opportune-ExitsOnSuspend=true
      X-Opportune-TaskSeconds=1.5
      X-Opportune-GraceSeconds=30
      X-Opportune-Locks=terminate
      X-Opportune-Suspend=refuse
      X-Opportune-Devices=allow
      X-Opportune-HeldDevices=suspend
      X-Opportune-Network=allow
      X-Opportune-Storage=20M
      X-Opportune-Supend=refuse
      X-Other=1

      [Desktop Action new]
      Name=New
      Exec=never
      """
    let manifest = try #require(try read(text))
    #expect(manifest.name == "post")
    #expect(manifest.command == ["env", "A=b", "mailer"])
    #expect(manifest.folder == "/var/mail box")
    #expect(manifest.modes == [.audio, .voip])
    #expect(
      manifest.exitsOnSuspend && !manifest.isSuspendable && !manifest.isShown && !manifest.needsTerminal)
    #expect(manifest.backgroundTime == .milliseconds(1500))
    #expect(manifest.grace == .seconds(30))
    #expect(manifest.locks == .terminate)
    #expect(
      manifest.keepsDevices && manifest.heldDevices == .suspend && manifest.network == NetworkLimit.none
        && manifest.storage?.rate?.bytesPerSecond == 20 << 20)
    #expect(manifest.notes.count == 3)
    for part in ["'fetch'", "'radio'", "'X-Opportune-Supend'"] {
      #expect(manifest.notes.contains { $0.contains(part) && $0.contains("/x/mail.desktop") }, "\(part)")
    }
    let least = try #require(try read(desktop("Exec=mailer")))
    #expect(least.name == "mail")
    #expect(least.isSuspendable && least.isShown && !least.exitsOnSuspend)
    #expect(least.network == nil && !least.keepsDevices && least.storage == nil)
    #expect(least.grace == nil && least.locks == nil && least.backgroundTime == nil && least.folder == nil)
    #expect(try read(desktop("Hidden=true")) == nil)
  }

  @Test(arguments: [
    ("mailer", ["mailer"]), ("mailer  --new   -x", ["mailer", "--new", "-x"]),
    (
      #""/opt/my mail/mailer" "a \\"b\\" \\$HOME \\`c\\` \\\\""#,
      ["/opt/my mail/mailer", #"a "b" $HOME `c` \"#]
    ),
    ("mailer %U", ["mailer"]), ("mailer %f --to", ["mailer", "--to"]),
    ("mailer --file=%f", ["mailer", "--file="]),
    ("mailer %i %c", ["mailer", "--icon", "letter", "Mail"]),
    ("mailer %k 100%%", ["mailer", "/x/mail.desktop", "100%"]),
    (#"mailer "" %d%m"#, ["mailer", ""]), (#"mailer "100%%""#, ["mailer", "100%"]),
    (#"mailer\sa"#, ["mailer", "a"]), ("mailer ü=é", ["mailer", "ü=é"]),
  ]) func execIsReadWithoutAShell(exec: String, command: [String]) throws {
    #expect(try read(desktop("Icon=letter", "Exec=" + exec))?.command == command)
  }

  @Test(arguments: [
    "", "  ", "%f", "A=b", "mailer; rm x", "mailer | tee", "mailer > x", "mailer $HOME", "mailer `id`",
    "mailer 'a b'",
    "mailer *", "mailer ~", "mailer &", "mailer #", "mailer (a)", #"mailer "a"#, #"mailer a"b""#,
    #"mailer "a"b"#,
    #"mailer "$HOME""#, #"mailer "\\x""#, "mailer %x", "mailer %", "mailer a%U", #"mailer "%f""#,
    #"mailer a\\b"#,
    #"mailer \q"#,
  ]) func whatAShellWouldBeNeededForIsRefused(exec: String) throws {
    let error = try #require(refusal(desktop("Exec=" + exec)))
    guard case .value("Exec", _, _) = error.code else {
      Issue.record("\(error)")
      return
    }
    #expect(error.message.contains("'/x/mail.desktop': 'Exec' is ") && error.message.contains("expected"))
  }

  @Test(arguments: [
    ("", "there is no group"), ("\n# only\n", "there is no group"),
    ("Name=x\n[Desktop Entry]", "line 1: it comes before"),
    ("[Other]\n", "the first group is 'Other'"), ("[Desktop Entry]\nName\n", "line 2: it is no entry"),
    ("[Desktop Entry]\nName=a\nName=b\n", "line 3: the key 'Name' is there twice"),
    ("[Desktop Entry]\nNa_me=a\n", "'Na_me' is no key"), ("[Desktop Entry]\nName[=a\n", "is no key"),
    ("[Desktop Entry]\n[Desktop Entry]\n", "line 2: the group 'Desktop Entry' is there twice"),
    ("[Desktop Entry\n", "it is no group"), ("[Desktop Entry] x\n", "it is no group"),
    ("[Desktop Entry]\nName=a\0b\n", "null byte"),
    ("[Desktop Entry]\nName=a\nExec=b\n", "'Type' is missing"),
    ("[Desktop Entry]\nType=Link\nName=a\nExec=b\n", "'Type' is 'Link', expected 'Application'"),
    ("[Desktop Entry]\nType=Application\nExec=b\n", "'Name' is missing"),
    ("[Desktop Entry]\nType=Application\nName=b\n", "'Exec' is missing"),
    ("[Desktop Entry]\nHidden=yes\n", "'Hidden' is 'yes', expected true or false"),
    ("+Path=tmp", "'Path' is 'tmp', expected an absolute path"),
    ("+TryExec=/no/such/program", "'TryExec' is '/no/such/program'"),
    ("+X-Opportune-TaskSeconds=0", "expected more than 0"),
    ("+X-Opportune-TaskSeconds=1e3", "expected a number"),
    ("+X-Opportune-TaskSeconds=86401", "at most 86400"), ("+X-Opportune-GraceSeconds=0.05", "0.1 to 3600"),
    ("+X-Opportune-GraceSeconds=nan", "expected a number"),
    ("+X-Opportune-Locks=never", "refuse, terminate or ignore"),
    ("+X-Opportune-Suspend=never", "expected allow or refuse"),
    ("+X-Opportune-Devices=some", "expected allow or deny"),
    ("+X-Opportune-HeldDevices=close", "expected tell, suspend or terminate"),
    ("+X-Opportune-Network=none", "expected allow, deny, or bytes a second"),
    ("+X-Opportune-Name=../etc", "the app's name"),
    ("+X-Opportune-BackgroundModes=a\\x;", "no backslash"),
  ]) func whatIsWrongIsNamedWithWhatIsExpected(text: String, part: String) throws {
    let whole = text.hasPrefix("+") ? desktop("Exec=mailer", String(text.dropFirst())) : text
    let error = try #require(refusal(whole))
    #expect(error.file == "/x/mail.desktop")
    #expect(error.message.hasPrefix("'/x/mail.desktop'"))
    #expect(error.message.contains(part), "\(error.message)")
  }

  @Test func bytesThatAreNoTextAreRefused() throws {
    let error = #expect(throws: HostManifestError.self) {
      try HostManifest(file: "/x/a.desktop", bytes: Array("[Desktop Entry]\nName=".utf8) + [0xFF, 10])
    }
    #expect(error?.message.contains("line 2: it is not in UTF-8") == true)
  }

  // R-MAN-01 R-MAN-04 R-MAN-05
  @Test func propertyListsAndJSONHaveTheSameKeys() throws {
    let keys: [String: Any] = [
      "CFBundleIdentifier": "org.example.mail", "OpportuneCommand": ["mailer", "a b"],
      "OpportuneFolder": "/var",
      "UIBackgroundModes": ["location"], "UIApplicationExitsOnSuspend": true, "OpportuneTaskSeconds": 90,
      "OpportuneGraceSeconds": 2.5, "OpportuneLocks": "ignore", "OpportuneSuspend": "allow",
      "OpportuneDevices": "allow", "OpportuneHeldDevices": "tell", "OpportuneNetwork": "deny",
      "OpportuneStorage": "allow",
      "CFBundleVersion": "1",
      "OpportuneComand": 1,
    ]
    let list = try PropertyListSerialization.data(fromPropertyList: keys, format: .xml, options: 0)
    let json = try JSONSerialization.data(withJSONObject: keys)
    for (file, data) in [("/x/a.plist", list), ("/x/a.json", json)] {
      let manifest = try #require(try HostManifest(file: file, bytes: [UInt8](data)))
      #expect(manifest.name == "org.example.mail" && manifest.command == ["mailer", "a b"])
      #expect(manifest.folder == "/var" && manifest.modes == [.location] && manifest.exitsOnSuspend)
      #expect(manifest.backgroundTime == .seconds(90) && manifest.grace == .milliseconds(2500))
      #expect(manifest.locks == .ignore && manifest.isSuspendable && manifest.keepsDevices)
      #expect(manifest.heldDevices == .tell)
      #expect(manifest.network == .denied && manifest.storage == StorageLimit.none)
      #expect(manifest.notes == ["'\(file)': the key 'OpportuneComand' is not known and has no effect"])
    }
  }

  @Test(arguments: [
    (#"{"OpportuneCommand":["x"]}"#, "'CFBundleIdentifier' is missing"),
    (#"{"CFBundleIdentifier":"a"}"#, "'OpportuneCommand' is missing"),
    (
      #"{"CFBundleIdentifier":"a","OpportuneCommand":"x"}"#,
      "'OpportuneCommand' is the string \"x\", expected an array"
    ),
    (#"{"CFBundleIdentifier":"a","OpportuneCommand":[]}"#, "expected an array"),
    (#"{"CFBundleIdentifier":"a","OpportuneCommand":[""]}"#, "'OpportuneCommand[0]'"),
    (#"{"CFBundleIdentifier":"a","OpportuneCommand":["x",7]}"#, "'OpportuneCommand[1]' is the number 7"),
    (#"{"CFBundleIdentifier":"a","OpportuneCommand":["x"],"OpportuneFolder":7}"#, "expected a string"),
    (
      #"{"CFBundleIdentifier":"a","OpportuneCommand":["x"],"OpportuneGraceSeconds":"1"}"#, "expected a number"
    ),
    (
      #"{"CFBundleIdentifier":"a","OpportuneCommand":["x"],"OpportuneGraceSeconds":0}"#,
      "'OpportuneGraceSeconds' is '0.0'"
    ),
    (#"{"CFBundleIdentifier":"a b","OpportuneCommand":["x"]}"#, "the app's name"),
    (#"{"CFBundleIdentifier":"a","OpportuneCommand":["x"],"#, "neither a property list nor JSON"),
    ("not at all", "neither a property list nor JSON"),
  ]) func wrongDocumentsAreNamedToo(text: String, part: String) throws {
    let error = try #require(refusal(text, as: "/x/a.json"))
    #expect(error.message.hasPrefix("'/x/a.json'") && error.message.contains(part), "\(error.message)")
  }

  // MARK: Folders

  @Test func theFirstOfANameCountsAndTheOthersGoOn() throws {
    let place = try ManifestPlace()
    let (own, all) = (try place.folder("own"), try place.folder("all"))
    try place.write(desktop("Exec=first"), own, "mail.desktop")
    try place.write(desktop("Exec=second"), all, "mail.desktop")
    try place.write(desktop("Hidden=true"), own, "gone.desktop")
    try place.write(desktop("Exec=x"), all, "gone.desktop")
    try place.write(desktop("Exec=a; b"), own, "bad.desktop")
    try place.write("nothing", own, "readme.txt")
    try place.write(#"{"CFBundleIdentifier":"org.example.b","OpportuneCommand":["b"]}"#, all, "b.json")
    let told = Told()
    let catalog = ManifestCatalog(folders: [own, "/nonexistent", all], log: { told.append($0) })
    for _ in 0..<2 { #expect(catalog.all().map(\.name) == ["mail", "org.example.b"]) }
    #expect(try catalog.find("mail")?.command == ["first"])
    #expect(try catalog.find("org.example.b")?.command == ["b"])
    #expect(try catalog.find("gone") == nil)
    #expect(try catalog.find("none") == nil)
    let bad = #expect(throws: ProcessHostError.self) { try catalog.find("bad") }
    #expect(bad?.message.contains("bad.desktop': 'Exec' is 'a; b'") == true)
    #expect(throws: ProcessHostError.self) { try catalog.find("../mail") }
    // Each once, however often the folders are read.
    #expect(told.lines.count == 2, "\(told.lines)")
    #expect(told.lines.contains { $0.contains("bad.desktop': 'Exec'") })
    #expect(told.lines.contains { $0.contains("has the name 'mail' already") })
  }

  @Test func whatProgramsHaveInstalledIsReadByNameAlone() throws {
    let place = try ManifestPlace()
    let data = try place.folder("share/applications")
    try place.write(desktop("Exec=x", "X-Opportune-Name=other"), data, "org.example.Mail.desktop")
    let folders = ManifestCatalog.applicationFolders(environment: [
      "XDG_DATA_HOME": place.path + "/share", "XDG_DATA_DIRS": "relative:/nonexistent",
    ])
    #expect(folders == [data, "/nonexistent/applications"])
    let catalog = ManifestCatalog(applications: folders)
    #expect(catalog.all().isEmpty)
    #expect(try catalog.find("org.example.Mail")?.name == "org.example.Mail")
    #expect(try catalog.find("other") == nil)
    #expect(
      ManifestCatalog.standardFolders(environment: ["HOME": "/home/a", "XDG_CONFIG_HOME": "relative"])
        == ["/home/a/.config/opportune/apps", "/etc/opportune/apps"])
    #expect(ManifestCatalog.standardFolders(environment: [:]) == ["/etc/opportune/apps"])
  }

  @Test func filesThatOthersMayWriteAreRefused() throws {
    let place = try ManifestPlace()
    let folder = try place.folder("apps")
    let file = try place.write(desktop("Exec=x"), folder, "a.desktop")
    #expect(chmod(file, 0o666) == 0)
    #expect(mkfifo(folder + "/b.desktop", 0o600) == 0)
    try place.write(String(repeating: "#", count: ManifestCatalog.largestFile + 1), folder, "c.desktop")
    try place.write(desktop("Exec=x"), folder, "d.desktop")
    for (name, part) in [
      ("a", "everybody may write it"), ("b", "no regular file"), ("c", "larger than"),
    ] {
      let error = #expect(throws: ProcessHostError.self) { try ManifestCatalog(folders: [folder]).find(name) }
      #expect(error?.message.contains(part) == true, "\(String(describing: error))")
    }
    // As seen by another user's host: the file is neither its own nor root's.
    if geteuid() == 0 {
      #expect(chown(folder + "/d.desktop", 4711, 4711) == 0)
      let error = #expect(throws: ProcessHostError.self) { try ManifestCatalog(folders: [folder]).find("d") }
      #expect(error?.message.contains("it is of user 4711") == true)
    }
  }
}

/// What a log was told, from any thread.
final class Told: Sendable {
  private let held = Mutex<[String]>([])
  func append(_ line: String) { held.withLock { $0.append(line) } }
  var lines: [String] { held.withLock { $0 } }
}

/// A folder of manifests, which goes with it.
final class ManifestPlace {
  let path: String

  init() throws {
    path = FileManager.default.temporaryDirectory.appending(path: Hosted.newKey()).path
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func folder(_ name: String) throws -> String {
    try FileManager.default.createDirectory(atPath: path + "/" + name, withIntermediateDirectories: true)
    return path + "/" + name
  }

  @discardableResult func write(_ text: String, _ folder: String, _ name: String) throws -> String {
    try Data(text.utf8).write(to: URL(filePath: folder + "/" + name))
    return folder + "/" + name
  }

  /// A manifest of a shell's script, in JSON.
  func script(_ script: String, _ folder: String, name: String, _ keys: [String: Any] = [:]) throws {
    try writeManifest(["sh", "-c", script], name: name, keys, in: folder)
  }
}
