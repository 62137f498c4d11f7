import Foundation

/// A manifest that cannot be read.
public struct ManifestError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What went wrong.
  public enum Code: Sendable, Hashable {
    /// Neither a property list nor JSON.
    case syntax(String)
    /// A value of the wrong type, or outside what is known; `path` is that of its key, as
    /// `UIBackgroundModes[1]`.
    case value(path: String, expected: String, found: String)
    /// A key that must be there.
    case missing(path: String)
  }

  /// What went wrong.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// The same for people: the key, what it is, and what was expected.
  public var message: String {
    switch code {
    case .syntax(let reason): "manifest: neither a property list nor JSON: \(reason)"
    case .value(let path, let expected, let found): "manifest: '\(path)' is \(found), expected \(expected)"
    case .missing(let path): "manifest: '\(path)' is missing"
    }
  }

  public var description: String { message }
}

/// Reads a manifest from a property list, as an `Info.plist`, or from JSON with the same keys. (R-MAN-07)
public enum ManifestReader {
  /// What was read, and which keys nobody here knows.
  public struct Result: Sendable, Hashable {
    /// What the document declares.
    public let manifest: Manifest
    /// Sorted; of no consequence.
    public let unknownKeys: [String]
    /// Background modes that nobody here knows, in their order; without effect.
    public let unknownModes: [String]

    package init(_ manifest: Manifest, unknownKeys: [String] = [], unknownModes: [String] = []) {
      self.manifest = manifest
      self.unknownKeys = unknownKeys
      self.unknownModes = unknownModes
    }
  }

  /// - Throws: ``ManifestError``.
  public static func read(_ data: Data) throws(ManifestError) -> Result {
    guard case .object(let keys) = try parse(data) else {
      throw ManifestError(.value(path: "/", expected: "a dictionary", found: "something else"))
    }
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

  private static func parse(_ data: Data) throws(ManifestError) -> DocumentValue {
    let first = data.first { !$0.isASCIIWhitespace }
    do {
      if first == UInt8(ascii: "{") || first == UInt8(ascii: "[") {
        return try DocumentValue(json: data)
      }
      guard !holdsSet(Array(data)) else { throw ManifestError(.syntax("a property list that holds a set")) }
      // Not PropertyListDecoder, which runs out of stack on a list that holds itself, or holds a thousand in
      // each other.
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

  /// Whether a property list in binary form has a set among its objects: no value of a property list, though
  /// its form knows them, and Foundation traps on one. What is wrong with the list otherwise is left to
  /// Foundation.
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
