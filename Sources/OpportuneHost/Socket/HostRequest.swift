import Foundation
package import OpportuneApps

/// What a client asks of a host: one line of JSON, answered by one.
package struct HostRequest: Sendable, Hashable, Codable {
  package enum Action: String, Sendable, Hashable, CaseIterable, Codable {
    /// Tells of all apps.
    case apps
    /// Makes a process of the same user an app.
    case adopt
    /// Brings an app to the foreground.
    case front
    /// Stops an app.
    case suspend
    /// Lets a suspended app go on.
    case resume
    /// Ends an app.
    case terminate
  }

  package var request: Action
  /// The app; required by all but `apps`.
  package var name: String?
  /// For `adopt`: the process.
  package var pid: Int32?
  /// For `adopt`: whether it goes to the foreground; no by default.
  package var foreground: Bool?
  /// For `adopt`: whether a number may be added to a name that is taken; no by default.
  package var derived: Bool?

  package init(_ request: Action, name: String? = nil) {
    self.request = request
    self.name = name
  }

  /// Sends the request and waits for the answer; blocks meanwhile.
  ///
  /// - Throws: ``PushError``. After `timedOut` the host may have done it all the same.
  package func send(to path: String, within limit: Duration? = .seconds(10)) throws(PushError) -> HostAnswer {
    let line: Data
    do { line = try JSONEncoder().encode(self) } catch { throw PushError(.refused("\(error)")) }
    let text = try LocalSocket.ask(line, at: path, within: limit)
    guard let answer = try? JSONDecoder().decode(HostAnswer.self, from: Data(text.utf8)) else {
      throw PushError(.refused(text))
    }
    if !answer.ok { throw PushError(.refused(answer.error ?? "it says nothing")) }
    return answer
  }
}

/// A host's answer.
package struct HostAnswer: Sendable, Hashable, Codable {
  package var ok = true
  /// Why not.
  package var error: String?
  /// To `apps`.
  package var apps: [AppEntry]?
  /// To `adopt`: the app's name.
  package var name: String?
  /// To `adopt`: for the variable `OPPORTUNE_APP` of the program's environment.
  package var mark: String?
  /// What could not be done, in what was.
  package var notes: [String]?

  package init() {}

  package static func refused(_ reason: String) -> HostAnswer {
    var answer = HostAnswer()
    (answer.ok, answer.error) = (false, reason)
    return answer
  }

  var line: String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) }
      ?? #"{"error":"the answer cannot be encoded","ok":false}"#
  }
}
