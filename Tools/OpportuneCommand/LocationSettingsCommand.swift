import ArgumentParser
import Foundation
import OpportuneBase
import OpportuneLocation

struct LocationSettingsCommand: ParsableCommand {
  enum Action: String, CaseIterable, ExpressibleByArgument { case list, set, reset, remove, on, off }

  static let configuration = CommandConfiguration(
    commandName: "settings",
    abstract: "The settings pane: says and sets which app may have locations.",
    discussion: """
      The file is that of 'opportune location monitor --settings', which goes by a change from the next fix on. Of an \
      app that is reset nothing is known: the user is asked again. One that is removed, as it is not installed any \
      more, is not listed either. With 'off' no app has locations, whatever is said of it; 'on' ends that.

      Example: opportune location settings location.json set org.example.maps whenInUse
      """)

  @Argument(help: "The settings, as JSON; 'set', 'on' and 'off' make it.", completion: .file()) var file:
    String
  @Argument(help: "What to do: list, set, reset, remove, on or off.") var action: Action = .list
  @Argument(help: "For set, reset and remove: the identifier in the app's manifest.") var app: String?
  @Argument(
    help: "For set: \(AuthorizationStatus.words().joined(separator: ", ")).",
    completion: .list(AuthorizationStatus.words()))
  var authorization: String?
  @Flag(help: "Print JSON: what the file says.") var json = false

  func validate() throws {
    let takesApp = [.set, .reset, .remove].contains(action)
    if let app, !takesApp {
      throw ValidationError("'\(app)' is not expected: \(action.rawValue) takes no app")
    }
    if takesApp, app?.isEmpty ?? true {
      throw ValidationError("\(action.rawValue) needs the identifier of an app")
    }
    if let authorization, action != .set {
      throw ValidationError("'\(authorization)' is not expected: \(action.rawValue) takes no authorization")
    }
    if action == .set { _ = try status() }
  }

  func run() throws { try StandardOutput.write(try output(), as: json ? .json : .text) }

  func output() throws -> String {
    let settings = try act()
    return json ? settings.json() : Self.table(settings)
  }

  private func act() throws -> LocationSettings {
    let store = LocationSettingsFile(file)
    switch (action, app) {
    case (.set, let app?):
      let status = try status()
      return try store.update { $0.apps[app] = status }
    case (.reset, let app?), (.remove, let app?):
      return try store.update { settings in
        guard settings.apps[app] != nil else {
          let known = settings.apps.keys.sorted().map { "'\($0)'" }.joined(separator: ", ")
          let expected = known.isEmpty ? "no app" : "one of \(known)"
          throw Failure("'\(app)' is not in '\(file)', expected \(expected)")
        }
        settings.apps[app] = action == .reset ? .notDetermined : nil
      }
    case (.on, _): return try store.update { $0.isEnabled = true }
    case (.off, _): return try store.update { $0.isEnabled = false }
    case (.list, _), (.set, nil), (.reset, nil), (.remove, nil):
      // A file that is not there is most likely another name for one that is.
      return try store.read(mustExist: true)
    }
  }

  private func status() throws -> AuthorizationStatus {
    let words = AuthorizationStatus.words().joined(separator: ", ")
    guard let authorization else { throw ValidationError("set needs an authorization: one of \(words)") }
    guard let status = AuthorizationStatus(word: authorization) else {
      throw ValidationError("'\(authorization)' is no authorization, expected one of \(words)")
    }
    return status
  }

  static func table(_ settings: LocationSettings) -> String {
    let off = settings.isEnabled ? "" : "all location services are off\n"
    guard !settings.apps.isEmpty else { return off + "no app is listed\n" }
    let rows =
      [("app", "authorization")]
      + settings.apps.sorted { $0.key < $1.key }.map { ($0.key.printable, $0.value.word) }
    let width = rows.map(\.0.count).max() ?? 0
    return off
      + rows.map { $0.0.padding(toLength: width, withPad: " ", startingAt: 0) + "  \($0.1)\n" }.joined()
  }
}
