internal import OpportuneApps
internal import OpportuneBase

/// Why the host of processes did not do what it was asked for.
package struct ProcessHostError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The kind of error.
  package enum Code: Sendable, Hashable {
    /// There is no app of this name.
    case unknownApp(String)
    /// The name is not possible for an app; the limit of its length.
    case invalidName(String, limit: Int)
    /// An app of this name runs.
    case nameTaken(String)
    /// The process cannot be an app; the reason.
    case process(Int32, String)
    /// The program could not be started; the number of the error.
    case program(String, Int32)
    /// The lifecycle does not allow it; the reason.
    case lifecycle(String, String)
    /// Not everything in the app had stopped after this time; the processes that had not.
    case notStopped([Int32], after: Duration)
    /// The kernel refused: the subject, and the number of the error.
    case system(String, Int32)
    /// The backend that was asked for does not work here; the reason.
    case backend(String, String)
  }

  /// The kind of error.
  package let code: Code

  package init(_ code: Code) { self.code = code }

  /// For people: the value, and what prevented it.
  package var message: String {
    switch code {
    case .unknownApp(let name): "there is no app '\(name)'"
    case .invalidName(let name, let limit):
      "'\(name)' cannot be an app's name: expected 1 to \(limit) of a-z, A-Z, 0-9, '.', '_' and '-', "
        + "a letter, a digit or '_' first"
    case .nameTaken(let name): "an app '\(name)' runs: choose another name"
    case .process(let pid, let why): "process \(pid) cannot be an app: \(why)"
    case .program(let path, let number): "'\(path)' could not be started: \(errorText(number))"
    case .lifecycle(let name, let why): "app '\(name)': \(why)"
    case .notStopped(let pids, let limit):
      "not all of it has stopped after \(limit): \(pids.map(String.init).joined(separator: ", ")); "
        + "it stops when the kernel lets it"
    case .system(let what, let number): "\(what): \(errorText(number))"
    case .backend(let name, let why): "the backend '\(name)' does not work here: \(why)"
    }
  }

  package var description: String { message }
}

/// Names of apps, which are names of folders as well.
package enum AppName {
  package static let longest = 64

  /// - Throws: ``ProcessHostError``: `invalidName`.
  static func check(_ name: String) throws(ProcessHostError) {
    let bytes = Array(name.utf8)
    guard (1...longest).contains(bytes.count), bytes.allSatisfy(isAllowed),
      bytes[0] != UInt8(ascii: "."), bytes[0] != UInt8(ascii: "-")
    else { throw ProcessHostError(.invalidName(name, limit: longest)) }
  }

  /// The nearest name to that of a program's file.
  package static func derived(from path: String) -> String {
    let file = path.split(separator: "/").last.map(String.init) ?? ""
    var bytes = file.utf8.map { isAllowed($0) ? $0 : UInt8(ascii: "_") }
    bytes = Array(bytes.drop { $0 == UInt8(ascii: ".") || $0 == UInt8(ascii: "-") }.prefix(48))
    return bytes.isEmpty ? "app" : String(decoding: bytes, as: UTF8.self)
  }

  private static func isAllowed(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }
}
