import Foundation
package import OpportuneApps

/// What a client asks of a host: one line of JSON, answered by one.
package struct HostRequest: Sendable, Hashable, Codable {
  package enum Action: String, Sendable, Hashable, CaseIterable, Codable {
    /// Tells of all apps.
    case apps
    /// Makes a process of the same user an app.
    case adopt
    /// Has an app run that has a manifest.
    case start
    /// Brings an app to the foreground; starts it where it has a manifest and does not run.
    case front
    /// Stops an app.
    case suspend
    /// Stops an app, and takes it out of main memory as far as that can be.
    case hibernate
    /// Lets an app go on that is suspended or hibernated.
    case resume
    /// Ends an app.
    case terminate
    /// Exempts an app from suspension, or ends that.
    case keep
    /// Tells an app whose program has joined that memory is short; without a name the host, which does what
    /// it does when the kernel says so.
    case warn
    /// Sends an app a message, or asks what its program has replied.
    case notify
    /// The process that asks is of an app, and is to be told before the host acts; the connection is for that
    /// from then on.
    case join
  }

  package var request: Action
  /// The app; required by all but `apps`, `join`, `warn` and `adopt`, which takes the program's, with a
  /// number where it is taken.
  package var name: String?
  /// For `adopt`: the process.
  package var pid: Int32?
  /// For `adopt`: whether the process is taken without those that descend from it by now; no by default.
  package var alone: Bool?
  /// For `apps`: whether those are told that have a manifest and do not run; no by default.
  package var all: Bool?
  /// For `adopt` and `start`: whether it goes to the foreground; no by default.
  package var foreground: Bool?
  /// For `adopt`: whether a number may be added to a name that is taken; no by default.
  package var derived: Bool?
  /// For `adopt`: how the program is started anew; it is not by default.
  package var restart: RunDeclaration?

  /// For `suspend` and `hibernate`: what becomes of an app that holds locks of files; as the host's by
  /// default.
  package var locks: LockPolicy.Answer?
  /// For `suspend`, `hibernate` and `notify`: whether this asks what became of one that was told to wait; no
  /// by default.
  package var again: Bool?
  /// For `keep`: how long; until it is ended by default.
  package var seconds: Double?
  /// For `keep`: why, for people.
  package var reason: String?
  /// For `keep`: whether the exemption is over; no by default.
  package var end: Bool?
  /// For `notify`: by which the program tells messages apart; required unless `again`.
  package var kind: String?
  /// For `notify`: the message's content, by key.
  package var payload: [String: String]?
  /// For `notify` with `again`: the number of the message that was sent.
  package var message: UInt64?
  /// For `join`: whether the program saves its state when asked, and may be ended then and started anew with
  /// it; no by default.
  package var restarts: Bool?

  package init(_ request: Action, name: String? = nil) {
    self.request = request
    self.name = name
  }

  /// - Returns: `nil` where the line is no request.
  package static func read(_ line: Data) -> HostRequest? {
    try? JSONDecoder().decode(HostRequest.self, from: line)
  }

  /// Sends the request and waits for the answer; blocks meanwhile.
  ///
  /// - Throws: ``PushError``. After `timedOut` the host may have done it all the same.
  package func send(to path: String, within limit: Duration? = .seconds(10)) throws(PushError) -> HostAnswer {
    let line: Data
    let encoder = JSONEncoder()
    encoder.outputFormatting = .withoutEscapingSlashes
    do { line = try encoder.encode(self) } catch { throw PushError(.refused("\(error)")) }
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
  /// To `apps`: whether the host has given up the privileges and system calls that it does not need.
  package var confined: Bool?
  /// To `adopt` and `join`: the app's name.
  package var name: String?
  /// To `adopt`: for the variable `OPPORTUNE_APP` of the program's environment.
  package var mark: String?
  /// To `start`: the process that was started; `nil`: the app ran.
  package var pid: Int32?
  /// To `notify`: the message's number.
  package var message: UInt64?
  /// To `notify`: what the program has replied, where it has.
  package var reply: String?
  /// To `suspend` and `hibernate`: the app runs on so long, to let go of its locks, and is looked at then; to
  /// `notify`: it has not answered; ask again after that.
  package var wait: Double?
  /// What could not be done, in what was.
  package var notes: [String]?

  package enum CodingKeys: String, CodingKey {
    case ok, error, apps, confined, name, mark, pid, message, reply, notes
    case wait = "again_s"
  }

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
