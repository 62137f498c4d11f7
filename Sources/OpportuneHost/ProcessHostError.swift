internal import Glibc
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
    /// The process, or one that descends from it, is of another user, whose number this is.
    case otherUser(Int32, owner: UInt32)
    /// The program could not be started; the number of the error.
    case program(String, Int32)
    /// The program could not be started, as the process that starts programs does not; why.
    case starter(String, ProgramStarter.Lack)
    /// The lifecycle does not allow it; the reason.
    case lifecycle(String, String)
    /// It is not suspended, by a user's wish; until when, and why.
    case exempt(String, String)
    /// It holds a lock of a file, which one; whether it is terminated for it, or runs on.
    case locked(String, String, isTerminated: Bool)
    /// It is not suspended, for the sake of a display or because it is shown there; the reason.
    case display(String, String)
    /// Its state is not saved, so it is not hibernated and goes on as it did; the reason.
    case notHibernated(String, String)
    /// A value of a request: what it is, the value, and what is expected.
    case value(String, String, String)
    /// Not everything in the app had stopped after this time; the processes that had not.
    case notStopped([Int32], after: Duration)
    /// The kernel refused: the subject, and the number of the error.
    case system(String, Int32)
    /// The file that declares the app is wrong.
    case manifest(HostManifestError)
    /// The app needs a terminal; its program.
    case terminal(String, String)
    /// The backend that was asked for does not work here; the reason.
    case backend(String, String)
  }

  /// The kind of error.
  package let code: Code

  package init(_ code: Code) { self.code = code }

  /// For people: the value, and what prevented it.
  package var message: String {
    switch code {
    case .unknownApp(let name): "there is no app '\(name)': opportune apps --all lists them"
    case .invalidName(let name, let limit):
      "'\(name)' cannot be an app's name: expected 1 to \(limit) of a-z, A-Z, 0-9, '.', '_' and '-', "
        + "a letter, a digit or '_' first"
    case .nameTaken(let name): "an app '\(name)' runs: choose another name"
    case .process(let pid, let why): "process \(pid) cannot be an app: \(why)"
    case .otherUser(let pid, let owner): "process \(pid) cannot be an app: it is of user \(userName(owner))"
    case .program(let path, let number): "'\(path)' could not be started: \(errorText(number))"
    case .starter(let path, let lack):
      "'\(path)' is not started: the host's process opportune-start \(lack.message)"
    case .lifecycle(let name, let why): "app '\(name)': \(why)"
    case .exempt(let name, let text): "app '\(name)' is \(text); opportune keep \(name) --end ends that"
    case .locked(let name, let why, let isTerminated):
      "app '\(name)' is \(isTerminated ? "terminated" : "not suspended"): \(why)"
    case .display(let name, let why): "app '\(name)' is not suspended: \(why)"
    case .notHibernated(let name, let why): "app '\(name)' is not hibernated: \(why)"
    case .value(let what, let value, let expected): "\(what) is \(value): \(expected)"
    case .notStopped(let pids, let limit):
      "not all of it has stopped after \(limit): \(pids.map(String.init).joined(separator: ", ")); "
        + "it stops when the kernel lets it"
    case .system(let what, let number): "\(what): \(errorText(number))"
    case .manifest(let error): "the manifest \(error.message)"
    case .terminal(let name, let program):
      "app '\(name)' needs a terminal, which the host has none of: opportune run --name \(name) -- \(program)"
    case .backend(let name, let why): "the backend '\(name)' does not work here: \(why)"
    }
  }

  package var description: String { message }
}

extension ProgramStarter.Lack {
  var message: String {
    switch self {
    case .ended: "has ended: start the host anew"
    case .stopped(let pid): "is stopped: kill -CONT \(pid) lets it go on"
    case .silent(let pid, let limit): "(\(pid)) has not answered within \(limit): try again later"
    }
  }
}

/// A user for people: the name, where there is one, and the number.
func userName(_ user: uid_t) -> String {
  var (entry, found) = (passwd(), UnsafeMutablePointer<passwd>?.none)
  return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 4096) { buffer in
    guard let base = buffer.baseAddress, getpwuid_r(user, &entry, base, buffer.count, &found) == 0,
      found != nil,
      let name = entry.pw_name
    else { return "\(user)" }
    return "'\(String(cString: name))' (\(user))"
  }
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
