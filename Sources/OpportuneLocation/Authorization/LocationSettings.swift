import Foundation
import OpportuneApps

/// What the user chose for the locations of all apps, to keep from one run to the next. (R-AUTH-10,
/// R-AUTH-24)
///
/// As JSON: `{"apps":{"org.example.maps":{"authorization":"whenInUse"}},"enabled":true}`. A host hands it to
/// its ``LocationSystem`` by ``AppLocationEvent/setAuthorization(_:)`` and ``LocationEvent/enabled(_:)``. A
/// value; not thread-safe.
public struct LocationSettings: Sendable, Hashable {
  /// All location services are on, unless the user switched them off.
  public var isEnabled = true
  /// By the identifier in the app's manifest.
  public var apps: [String: AuthorizationStatus] = [:]

  /// Everything is on, and nothing was chosen.
  public init() {}

  /// - Parameter types: those that the words of the text may mean.
  /// - Throws: ``LocationSettingsError``, with the path of the key that is wrong.
  public init(
    reading data: Data, types: [AuthorizationType] = AuthorizationStatus.standardTypes
  ) throws(LocationSettingsError) {
    let root: DocumentValue
    do { root = try DocumentValue(json: data) } catch { throw LocationSettingsError(.syntax) }
    for (key, value) in try root.object(at: "/").sorted(by: { $0.key < $1.key }) {
      switch (key, value) {
      case ("enabled", .boolean(let isEnabled)): self.isEnabled = isEnabled
      case ("enabled", _):
        throw LocationSettingsError(.value(path: key, expected: "true or false", found: value.found))
      case ("apps", _):
        for (app, said) in try value.object(at: key).sorted(by: { $0.key < $1.key }) {
          apps[app] = try Self.status(said, at: "apps[\(GeoJSON.quoted(app))]", types)
        }
      // A key that is misspelt would else be a choice without effect.
      default:
        throw LocationSettingsError(
          .value(path: key, expected: "one of 'apps' and 'enabled'", found: "an unknown key"))
      }
    }
  }

  private static func status(
    _ value: DocumentValue, at path: String, _ types: [AuthorizationType]
  ) throws(LocationSettingsError) -> AuthorizationStatus {
    let object = try value.object(at: path)
    if let key = object.keys.filter({ $0 != "authorization" }).min() {
      throw LocationSettingsError(
        .value(path: "\(path).\(key)", expected: "'authorization'", found: "an unknown key"))
    }
    let said = object["authorization"]
    guard case .string(let word)? = said, let status = AuthorizationStatus(word: word, types: types) else {
      let words = AuthorizationStatus.words(of: types).map { "\"\($0)\"" }.joined(separator: ", ")
      throw LocationSettingsError(
        .value(path: "\(path).authorization", expected: "one of \(words)", found: said?.found ?? "missing"))
    }
    return status
  }

  /// The text that ``init(reading:types:)`` reads; the same for the same settings.
  public func json() -> String {
    let lines = apps.sorted { $0.key < $1.key }.map {
      "    \(GeoJSON.quoted($0.key)): {\"authorization\": \(GeoJSON.quoted($0.value.word))}"
    }
    let list = lines.isEmpty ? "{}" : "{\n\(lines.joined(separator: ",\n"))\n  }"
    return "{\n  \"apps\": \(list),\n  \"enabled\": \(isEnabled)\n}\n"
  }
}

/// Why a text is not ``LocationSettings``.
public struct LocationSettingsError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What went wrong.
  public enum Code: Sendable, Hashable {
    /// Not JSON.
    case syntax
    /// `path` is as `apps["org.example.maps"].authorization`.
    case value(path: String, expected: String, found: String)
  }

  /// What went wrong.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// The same for people: the key, what it is, and what was expected.
  public var message: String {
    switch code {
    case .syntax: "location settings: not JSON"
    case .value(let path, let expected, let found):
      "location settings: '\(path)' is \(found), expected \(expected)"
    }
  }

  public var description: String { message }
}

extension AuthorizationStatus {
  /// What the user can choose where nothing else is defined.
  public static let standardTypes = [AuthorizationType.always, .whenInUse]

  /// The word for it in a file or a command: `notDetermined`, `denied`, or the type's name as one word
  /// (`whenInUse`).
  public var word: String {
    switch self {
    case .notDetermined: "notDetermined"
    case .denied: "denied"
    case .allowed(let type):
      type.name.split(separator: " ").enumerated()
        .map {
          $0.offset == 0 ? String($0.element) : $0.element.prefix(1).uppercased() + $0.element.dropFirst()
        }
        .joined()
    }
  }

  /// All words that there are for these types.
  package static func words(of types: [AuthorizationType] = standardTypes) -> [String] {
    all(types).map(\.word)
  }

  /// `nil`: no such word.
  public init?(word: String, types: [AuthorizationType] = AuthorizationStatus.standardTypes) {
    guard let status = Self.all(types).first(where: { $0.word == word }) else { return nil }
    self = status
  }

  private static func all(_ types: [AuthorizationType]) -> [AuthorizationStatus] {
    types.map { .allowed($0) } + [.denied, .notDetermined]
  }
}

extension DocumentValue {
  fileprivate func object(at path: String) throws(LocationSettingsError) -> [String: DocumentValue] {
    guard case .object(let object) = self else {
      throw LocationSettingsError(.value(path: path, expected: "an object", found: found))
    }
    return object
  }
}
