internal import OpportuneApps
internal import OpportuneBase

/// Why a file is no manifest of an app of the host.
package struct HostManifestError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of error.
  package enum Code: Sendable, Hashable {
    /// It cannot be read; the reason.
    case file(String)
    /// It is neither a property list, JSON nor a desktop entry; the line, where there is one, and the reason.
    case syntax(line: Int?, String)
    /// A key that an app needs is missing.
    case missing(key: String)
    /// What a key has, and what is expected.
    case value(key: String, found: String, expected: String)
  }

  /// The path of the file.
  package let file: String
  /// The kind of error.
  package let code: Code

  package init(_ file: String, _ code: Code) { (self.file, self.code) = (file, code) }

  /// For people: file, key, value, and what was expected.
  package var message: String {
    switch code {
    case .file(let why): "'\(file)': \(why)"
    case .syntax(let line, let why): "'\(file)'\(line.map { ", line \($0)" } ?? ""): \(why)"
    case .missing(let key): "'\(file)': the key '\(key)' is missing"
    case .value(let key, let found, let expected): "'\(file)': '\(key)' is \(found), expected \(expected)"
    }
  }

  package var description: String { message }
}

/// What is wrong with a value, before it is known whose it is.
struct ValueError: Error {
  let found: String
  let expected: String

  /// - Parameter text: shown up to its first 60 characters.
  init(_ text: String, _ expected: String) {
    found = "'\(text.prefix(60))'" + (text.count > 60 ? "…" : "")
    self.expected = expected
  }

  func at(_ key: String, in file: String) -> HostManifestError {
    HostManifestError(file, .value(key: key, found: found, expected: expected))
  }
}
