import Foundation
import OpportuneApps
import OpportuneBase
import OpportuneFuzz
import OpportuneHost
import OpportuneLocation

/// Requests to a host of processes with a known meaning, and anything else that a client may send as a line;
/// and desktop entries, which declare the host's apps.
struct HostRequestProperty: DocumentProperty {
  let name = "host"
  let summary =
    "A request to a host of processes is read as it was meant, or refused where a value is wrong; a desktop entry gives "
    + "a command and values within their limits, or an error that names the file; nothing traps."
  var read: @Sendable (Data) -> HostRequest? = { HostRequest.read($0) }

  static let words = [
    "{\"request\":\"apps\"", "\"pid\":", "\"name\":\"", "\"seconds\":1e300", "null", "true", "}", "[",
    "\\ud800",
    "[Desktop Entry]\n", "Type=Application\n", "Exec=", "\nName=a\n", "%U", "%", "\"", "\\\\", "=", "[de]=",
    "\n",
    "X-Opportune-BackgroundModes=audio;", "X-Opportune-TaskSeconds=", "Hidden=true", "#", "\u{0}",
  ]

  static let bytesMade = 4...40

  static let fixtures: [[UInt8]] =
    (0..<16).map { seed in
      var generator = SplitMix64(seed: UInt64(seed))
      var bytes = ByteSource(generator.bytes(40))
      return Array(Made(&bytes).line.utf8)
    }
    + [
      "[Desktop Entry]\nType=Application\nName=Mail\nName[de]=Post\nExec=\"mail er\" --to %U %%\nPath=/tmp\n",
      "[Desktop Entry]\nType=Application\nName=a\nExec=b %i\nIcon=c\nX-Opportune-Suspend=refuse\n\n[Other]\nExec=c\n",
      "[Desktop Entry]\nType=Application\nName=a\nExec=b\nX-Opportune-TaskSeconds=5\nX-Opportune-GraceSeconds=1\n",
    ].map { Array($0.utf8) }

  func check(document: Data) throws(Violation) {
    if let request = read(document) {
      guard let line = try? JSONEncoder().encode(request), read(line) == request else {
        throw Violation("it is another request when it is written and read again")
      }
    }
    let manifest: HostManifest?
    do throws(HostManifestError) {
      manifest = try HostManifest(file: "/x/a.desktop", bytes: Array(document))
    } catch {
      guard error.message.hasPrefix("'/x/a.desktop'") else { throw Violation("no file is named: \(error)") }
      return
    }
    guard let manifest else { return }
    guard let program = manifest.command.first, !program.isEmpty, !program.contains("="),
      !manifest.command.contains(where: { $0.utf8.contains(0) })
    else { throw Violation("the command is \(manifest.command)") }
    guard (1...64).contains(manifest.name.utf8.count), !manifest.name.contains("/") else {
      throw Violation("the name is '\(manifest.name)'")
    }
    if let time = manifest.backgroundTime, !(.zero ... .seconds(86_400)).contains(time) {
      throw Violation("the time in background is \(time)")
    }
    if let grace = manifest.grace, !(.milliseconds(100) ... .seconds(3600)).contains(grace) {
      throw Violation("the grace is \(grace)")
    }
    if let folder = manifest.folder, !folder.hasPrefix("/") { throw Violation("the folder is '\(folder)'") }
  }

  func check(madeFrom bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let made = Made(&bytes)
    log.note("read: \(made.line)")
    let found = read(Data(made.line.utf8))
    guard (found != nil) == made.isValid else {
      throw Violation(made.isValid ? "it is refused" : "a wrong value is not refused")
    }
    if let found, found != made.request { throw Violation("it is read as \(found)") }
  }

  /// A request and what it means.
  struct Made {
    private(set) var request: HostRequest
    private(set) var isValid = true
    private var values: [(key: String, text: String)]

    private static let names = ["make", "é\u{1F600}", "<&>\"\\/", "a\tb", "", "../x"]
    /// Right for no key but these: a number for `seconds`, an object for `payload`.
    private static let wrong = ["[]", "[true]", "[\"\"]"]

    init(_ bytes: inout ByteSource) {
      request = HostRequest(bytes.choice(HostRequest.Action.allCases))
      values = [("request", GeoJSON.quoted(request.request.rawValue))]
      if bytes.below(10) == 0 {
        values = bytes.flag() ? [] : [("request", bytes.choice(["\"fly\"", "null", "7"]))]
        isValid = false
      }
      add("name", \.name, bytes.choice(Self.names), GeoJSON.quoted, &bytes)
      add("pid", \.pid, bytes.choice([0, -7, 4711, .max]), { "\($0)" }, &bytes)
      add("foreground", \.foreground, bytes.flag(), { "\($0)" }, &bytes)
      add("alone", \.alone, bytes.flag(), { "\($0)" }, &bytes)
      add("all", \.all, bytes.flag(), { "\($0)" }, &bytes)
      add("derived", \.derived, bytes.flag(), { "\($0)" }, &bytes)
      add(
        "locks", \.locks, bytes.choice(LockPolicy.Answer.allCases), { GeoJSON.quoted($0.rawValue) },
        wrong: ["\"stay\"", "7"], &bytes)
      add("again", \.again, bytes.flag(), { "\($0)" }, &bytes)
      add(
        "seconds", \.seconds, bytes.choice([0, -1, 0.5, 1e300]), { "\($0)" }, wrong: ["{}", "\"7\""], &bytes)
      add("reason", \.reason, bytes.choice(Self.names), GeoJSON.quoted, &bytes)
      add("end", \.end, bytes.flag(), { "\($0)" }, &bytes)
      add("kind", \.kind, bytes.choice(Self.names), GeoJSON.quoted, &bytes)
      add(
        "payload", \.payload, bytes.choice([[:], ["from": "ada"], ["é\"": "", "text": "a\tb"]]), Self.object,
        wrong: ["{\"from\":7}", "{\"from\":null}", "\"{}\""], &bytes)
      add("message", \.message, bytes.choice([0, 7, .max]), { "\($0)" }, wrong: ["-1", "7.5"], &bytes)
      add("restarts", \.restarts, bytes.flag(), { "\($0)" }, &bytes)
      if bytes.below(4) == 0 { values.append(("later", bytes.choice(["1", "null", "[{}]"]))) }
      let run = RunDeclaration(command: ["/bin/true", "a b"], folder: "/", environment: ["A=\u{1F600}"])
      let empty = RunDeclaration(command: [], folder: "", environment: [])
      add("restart", \.restart, bytes.choice([run, empty]), Self.declaration, &bytes)
    }

    private mutating func add<Value>(
      _ key: String, _ path: WritableKeyPath<HostRequest, Value?>, _ value: Value, _ text: (Value) -> String,
      wrong: [String] = ["{}", "7.5"], _ bytes: inout ByteSource
    ) {
      switch bytes.below(12) {
      case 0...5: return
      case 6: values.append((key, "null"))
      case 7:
        values.append((key, bytes.choice(Self.wrong + wrong)))
        isValid = false
      default:
        request[keyPath: path] = value
        values.append((key, text(value)))
      }
    }

    private static func declaration(_ run: RunDeclaration) -> String {
      func list(_ texts: [String]) -> String { "[\(texts.map(GeoJSON.quoted).joined(separator: ","))]" }
      let (command, environment) = (list(run.command), list(run.environment))
      return #"{"command":\#(command),"folder":\#(GeoJSON.quoted(run.folder)),"environment":\#(environment)}"#
    }

    private static func object(_ texts: [String: String]) -> String {
      let members = texts.map { "\(GeoJSON.quoted($0.key)):\(GeoJSON.quoted($0.value))" }
      return "{\(members.joined(separator: ","))}"
    }

    var line: String {
      "{\(values.map { "\(GeoJSON.quoted($0.key)):\($0.text)" }.joined(separator: ","))}"
    }
  }
}
