import Foundation
import OpportuneApps
import OpportuneBase
import OpportuneFuzz
import OpportuneLocation

/// Manifests with a known meaning, in JSON and as property lists, and damaged ones.
struct ManifestProperty: DocumentProperty {
  let name = "manifest"
  let summary =
    "A manifest, in JSON and as a property list, is read as it was meant, or refused where a value is wrong; what is "
    + "read is within its limits; nothing traps."
  var read: @Sendable (Data) throws -> ManifestReader.Result = { try ManifestReader.read($0) }

  static let words = [
    "\"CFBundleIdentifier\":", "\"UIBackgroundModes\":[\"audio\"]", "\"OpportuneTaskSeconds\":", "{", "}",
    "[", "]",
    "null",
    "true", ",", "<true/>", "<integer>3</integer>", "<real>", "<dict>", "</dict>", "<key>", "\\ud800",
    "bplist00",
  ]

  static let bytesMade = 4...24

  static let fixtures: [[UInt8]] = (0..<24).flatMap { seed in
    var generator = SplitMix64(seed: UInt64(seed))
    var bytes = ByteSource(generator.bytes(24))
    let made = Made(&bytes)
    let binary = try? PropertyListSerialization.data(
      fromPropertyList: [
        "CFBundleIdentifier": "a", "UIBackgroundModes": ["voip"], "OpportuneTaskSeconds": seed,
      ],
      format: .binary, options: 0)
    return [Array(made.json.utf8), Array(made.propertyList.utf8)] + (binary.map { [[UInt8]($0)] } ?? [])
  }

  func check(document: Data) throws(Violation) {
    if let result = try result(of: document) { try judge(result) }
  }

  func check(madeFrom bytes: inout ByteSource, _ log: inout StepLog) throws(Violation) {
    let made = Made(&bytes)
    for text in [made.json, made.propertyList] {
      log.note("read: \(text)")
      let result = try result(of: Data(text.utf8))
      if let result { try judge(result) }
      guard made.isValid == (result != nil) else {
        throw Violation(made.isValid ? "it is refused" : "a wrong value is not refused")
      }
      guard let result else { continue }
      guard result.manifest == made.manifest else { throw Violation("it is read as \(result.manifest)") }
      guard result.unknownKeys == made.unknownKeys.sorted(), result.unknownModes == made.unknownModes else {
        throw Violation("unknown are said to be \(result.unknownKeys) and \(result.unknownModes)")
      }
    }
  }

  private func result(of data: Data) throws(Violation) -> ManifestReader.Result? {
    do { return try read(data) } catch {
      guard let error = error as? ManifestError, !error.description.isEmpty else {
        throw Violation("the error is no ManifestError: \(error)")
      }
      return nil
    }
  }

  private func judge(_ result: ManifestReader.Result) throws(Violation) {
    guard !result.manifest.identifier.isEmpty else { throw Violation("the identifier is empty") }
    if let time = result.manifest.taskTime, !(.zero ... .seconds(86_400)).contains(time) {
      throw Violation("the task time is \(time)")
    }
    guard result.unknownKeys == result.unknownKeys.sorted() else {
      throw Violation("unknown keys are not sorted")
    }
  }

  /// A manifest and what it means.
  private struct Made {
    private enum Value {
      case string(String)
      case number(String)
      case boolean(Bool)
      case strings([String])
      case numbers
    }

    private(set) var manifest = Manifest(identifier: "")
    private(set) var isValid = true
    private(set) var unknownKeys: [String] = []
    private(set) var unknownModes: [String] = []
    private var values: [(key: String, value: Value)] = []

    private static let texts = [
      "org.example.app", "é\u{1F600}", "<&>\"\\/", "a\tb", "UIBackgroundModes", "1", "true",
    ]
    private static let modes = Manifest.Mode.allCases.map(\.rawValue) + ["bluetooth-central", ""]
    private static let seconds = ["1", "300", "0.5", "86400", "0", "-1", "86401", "1e300", "0.0004"]

    init(_ bytes: inout ByteSource) {
      addIdentifier(&bytes)
      addModes(&bytes)
      addFlag("UIApplicationExitsOnSuspend", \.exitsOnSuspend, &bytes)
      addFlag("OpportuneAllowsSuspension", \.allowsSuspension, &bytes)
      addFlag("OpportuneCompletesTasks", \.completesTasks, &bytes)
      addSeconds(&bytes)
      if bytes.below(3) == 0 {
        let text = bytes.choice(Self.texts)
        values.append(("NSLocationWhenInUseUsageDescription", .string(text)))
        manifest.usageDescriptions["NSLocationWhenInUseUsageDescription"] = text
      }
      if bytes.below(3) == 0 {
        values.append(
          ("CFBundleVersion", bytes.choice([.string("1"), .number("2.5"), .boolean(true), .numbers])))
        unknownKeys.append("CFBundleVersion")
      }
    }

    private mutating func addIdentifier(_ bytes: inout ByteSource) {
      switch bytes.below(12) {
      case 0: isValid = false
      case 1:
        values.append(
          ("CFBundleIdentifier", bytes.choice([.string(""), .number("1"), .boolean(false), .numbers])))
        isValid = false
      default:
        manifest.identifier = bytes.choice(Self.texts)
        values.append(("CFBundleIdentifier", .string(manifest.identifier)))
      }
    }

    private mutating func addModes(_ bytes: inout ByteSource) {
      switch bytes.below(8) {
      case 0...1: return
      case 2:
        values.append(
          ("UIBackgroundModes", bytes.choice([.string("audio"), .number("1"), .boolean(true), .numbers])))
        isValid = false
      default:
        let names = (0..<bytes.below(5)).map { _ in bytes.choice(Self.modes) }
        values.append(("UIBackgroundModes", .strings(names)))
        manifest.backgroundModes = Set(names.compactMap { Manifest.Mode(rawValue: $0) })
        unknownModes = names.filter { Manifest.Mode(rawValue: $0) == nil }
      }
    }

    private mutating func addFlag(
      _ key: String, _ path: WritableKeyPath<Manifest, Bool>, _ bytes: inout ByteSource
    ) {
      switch bytes.below(10) {
      case 0...3: return
      case 4:
        values.append((key, bytes.choice([.string("YES"), .number("1"), .number("0"), .strings([])])))
        isValid = false
      default:
        manifest[keyPath: path] = bytes.flag()
        values.append((key, .boolean(manifest[keyPath: path])))
      }
    }

    private mutating func addSeconds(_ bytes: inout ByteSource) {
      switch bytes.below(6) {
      case 0...2: return
      case 3:
        values.append(
          ("OpportuneTaskSeconds", bytes.choice([.string("3"), .boolean(true), .strings(["3"])])))
        isValid = false
      default:
        let text = bytes.choice(Self.seconds)
        let seconds = Double(text) ?? -1
        values.append(("OpportuneTaskSeconds", .number(text)))
        if seconds > 0, seconds <= 86_400 {
          manifest.taskTime = .milliseconds(Int64((seconds * 1000).rounded()))
        } else {
          isValid = false
        }
      }
    }

    var json: String {
      let pairs = values.map { key, value in
        let text =
          switch value {
          case .string(let text): GeoJSON.quoted(text)
          case .number(let text): text
          case .boolean(let flag): "\(flag)"
          case .strings(let texts): "[\(texts.map(GeoJSON.quoted).joined(separator: ", "))]"
          case .numbers: "[1, 2]"
          }
        return "\(GeoJSON.quoted(key)): \(text)"
      }
      return "{\(pairs.joined(separator: ", "))}"
    }

    var propertyList: String {
      let pairs = values.map { key, value in
        let text =
          switch value {
          case .string(let text): "<string>\(text.inXML)</string>"
          case .number(let text): Int(text) == nil ? "<real>\(text)</real>" : "<integer>\(text)</integer>"
          case .boolean(let flag): "<\(flag)/>"
          case .strings(let texts):
            "<array>\(texts.map { "<string>\($0.inXML)</string>" }.joined())</array>"
          case .numbers: "<array><integer>1</integer><real>2</real></array>"
          }
        return "<key>\(key)</key>\(text)"
      }
      return
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><plist version=\"1.0\"><dict>\(pairs.joined())</dict></plist>"
    }
  }
}
