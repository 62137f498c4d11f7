import Foundation

/// Why a manifest cannot be read.
public struct ManifestError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of error.
  public enum Code: Sendable, Hashable {
    /// The document is neither a property list nor JSON.
    case syntax(String)
    /// A value has the wrong type or is unknown; `path` is that of its key, such as `UIBackgroundModes[1]`.
    case value(path: String, expected: String, found: String)
    /// A required key is missing.
    case missing(path: String)
  }

  /// The kind of error.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// For people: the key, its value, and what was expected.
  public var message: String {
    switch code {
    case .syntax(let reason): "manifest: neither a property list nor JSON: \(reason)"
    case .value(let path, let expected, let found): "manifest: '\(path)' is \(found), expected \(expected)"
    case .missing(let path): "manifest: '\(path)' is missing"
    }
  }

  public var description: String { message }
}

/// Reads a manifest from a property list, such as an `Info.plist`, or from JSON with the same keys.
/// (R-MAN-07)
public enum ManifestReader {
  /// The manifest, and the unknown parts of the document.
  public struct Result: Sendable, Hashable {
    /// What the document declares.
    public let manifest: Manifest
    /// Unknown keys, sorted; they are ignored.
    public let unknownKeys: [String]
    /// Unknown background modes, in their order; they are ignored.
    public let unknownModes: [String]

    package init(_ manifest: Manifest, unknownKeys: [String] = [], unknownModes: [String] = []) {
      self.manifest = manifest
      self.unknownKeys = unknownKeys
      self.unknownModes = unknownModes
    }
  }

  /// - Throws: ``ManifestError``.
  public static func read(_ data: Data) throws(ManifestError) -> Result {
    let keys = try document(data)
    var manifest = Manifest(identifier: "")
    var unknownKeys: [String] = []
    var unknownModes: [String] = []
    for (key, value) in keys.sorted(by: { $0.key < $1.key }) {
      switch key {
      case "CFBundleIdentifier": manifest.identifier = try value.string(at: key)
      case "UIBackgroundModes":
        for (index, element) in try value.array(at: key).enumerated() {
          let name = try element.string(at: "\(key)[\(index)]")
          if let mode = Manifest.Mode(rawValue: name) {
            manifest.backgroundModes.insert(mode)
          } else {
            unknownModes.append(name)
          }
        }
      case "UIApplicationExitsOnSuspend": manifest.exitsOnSuspend = try value.boolean(at: key)
      case "OpportuneAllowsSuspension": manifest.allowsSuspension = try value.boolean(at: key)
      case "OpportuneCompletesTasks": manifest.completesTasks = try value.boolean(at: key)
      case "OpportuneTaskSeconds":
        let seconds = try value.number(at: key)
        guard seconds > 0, seconds <= 86_400 else {
          throw ManifestError(
            .value(path: key, expected: "more than 0 and at most 86400 seconds", found: "\(seconds)"))
        }
        manifest.taskTime = .milliseconds(Int64((seconds * 1000).rounded()))
      case _ where key.hasPrefix("NSLocation") && key.hasSuffix("UsageDescription"):
        manifest.usageDescriptions[key] = try value.string(at: key)
      default: unknownKeys.append(key)
      }
    }
    if manifest.identifier.isEmpty { throw ManifestError(.missing(path: "CFBundleIdentifier")) }
    return Result(manifest, unknownKeys: unknownKeys, unknownModes: unknownModes)
  }

  /// All keys of a document, also those that are not of ``Manifest``.
  package static func document(_ data: Data) throws(ManifestError) -> [String: DocumentValue] {
    guard case .object(let keys) = try parse(data) else {
      throw ManifestError(.value(path: "/", expected: "a dictionary", found: "something else"))
    }
    return keys
  }

  private static func parse(_ data: Data) throws(ManifestError) -> DocumentValue {
    let first = data.first { !$0.isASCIIWhitespace }
    do {
      if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
        return try DocumentValue(json: data)
      }
      guard !holdsSet(Array(data)) else { throw ManifestError(.syntax("a property list that holds a set")) }
      // Not PropertyListDecoder, which overflows the stack on a list that contains itself, or on a thousand
      // nested lists.
      var format = PropertyListSerialization.PropertyListFormat.xml
      let value = try PropertyListSerialization.propertyList(from: data, format: &format)
      guard format == .xml || format == .binary else {
        throw ManifestError(.syntax("a property list in neither XML nor binary form"))
      }
      return DocumentValue(propertyList: value)
    } catch let error as ManifestError {
      throw error
    } catch {
      throw ManifestError(.syntax(reason(error)))
    }
  }

  /// Whether a binary property list contains a set. Sets are not values of a property list although the
  /// format has them, and Foundation traps on one. All other errors are left to Foundation.
  private static func holdsSet(_ bytes: [UInt8]) -> Bool {
    let trailer = bytes.count - 32
    guard bytes.starts(with: Array("bplist".utf8)), trailer >= 8 else { return false }
    func number(at start: Int, _ count: Int) -> Int {
      bytes[start..<start + count].reduce(0) { $0 << 8 | Int($1) }
    }
    let (width, count, table) = (
      Int(bytes[trailer + 6]), number(at: trailer + 8, 8), number(at: trailer + 24, 8)
    )
    guard (0...trailer).contains(count), (0...trailer).contains(table), table + count * width <= trailer
    else {
      return false
    }
    return (0..<count).contains { index in
      let offset = number(at: table + index * width, width)
      return bytes.indices.contains(offset) && (0xB0...0xCF).contains(bytes[offset])
    }
  }

  private static func reason(_ error: any Error) -> String {
    switch error {
    case let error as CocoaError:
      error.userInfo[NSDebugDescriptionErrorKey] as? String ?? error.localizedDescription
    default: "\(error)"
    }
  }
}

extension UInt8 {
  fileprivate var isASCIIWhitespace: Bool { self == 32 || (9...13).contains(self) }
}

extension DocumentValue {
  private func wrong(_ path: String, _ expected: String) -> ManifestError {
    ManifestError(.value(path: path, expected: expected, found: found))
  }

  fileprivate func string(at path: String) throws(ManifestError) -> String {
    guard case .string(let value) = self else { throw wrong(path, "a string") }
    return value
  }

  fileprivate func boolean(at path: String) throws(ManifestError) -> Bool {
    guard case .boolean(let value) = self else { throw wrong(path, "a boolean") }
    return value
  }

  fileprivate func number(at path: String) throws(ManifestError) -> Double {
    guard case .number(let value) = self, value.isFinite else { throw wrong(path, "a number") }
    return value
  }

  fileprivate func array(at path: String) throws(ManifestError) -> [DocumentValue] {
    guard case .array(let values) = self else { throw wrong(path, "an array") }
    return values
  }
}
