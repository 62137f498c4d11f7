import Foundation

/// A command of the switcher to a running host: one line of JSON on its socket. (R-LIFE-24)
package struct SwitcherRequest: Sendable, Hashable, Codable {
  package enum Action: String, Sendable, Hashable, CaseIterable, Codable {
    /// Changes nothing.
    case list
    /// Brings an app to the foreground; launches it if needed.
    case bring
    /// Terminates an app, whatever its state.
    case terminate
  }

  package var switcher: Action
  /// The identifier of the app's manifest; required for all commands but `list`.
  package var app: String?

  package init(_ action: Action, app: String? = nil) {
    switcher = action
    self.app = app
  }

  /// Sends the command and waits for the host's answer; blocks meanwhile.
  ///
  /// - Parameter limit: the limit of the whole exchange; `nil` waits as long as the host takes.
  /// - Returns: the apps of the switcher afterwards, the most recently used first.
  /// - Throws: ``PushError``. After `timedOut` the host may have carried out the command all the same.
  package func send(to path: String, within limit: Duration? = .seconds(10)) throws(PushError)
    -> [SwitcherEntry]
  {
    let line: Data
    do { line = try JSONEncoder().encode(self) } catch { throw PushError(.refused("\(error)")) }
    let text = try LocalSocket.ask(line, at: path, within: limit)
    guard let answer = try? JSONDecoder().decode(SwitcherAnswer.self, from: Data(text.utf8)) else {
      throw PushError(.refused(text))
    }
    if let reason = answer.refusal { throw PushError(.refused(reason)) }
    return answer.apps
  }
}

/// An app of the switcher.
package struct SwitcherEntry: Sendable, Hashable, Codable {
  /// The identifier of its manifest.
  package var app: String
  package var state: String
  /// The number of open background tasks.
  package var tasks: Int
  /// The size of its image of the last suspension in bytes, if there is one.
  package var snapshot: Int?

  package init(app: String, state: String, tasks: Int, snapshot: Int?) {
    self.app = app
    self.state = state
    self.tasks = tasks
    self.snapshot = snapshot
  }
}

/// The host's answer to a command of the switcher.
package struct SwitcherAnswer: Sendable, Hashable, Codable {
  package var apps: [SwitcherEntry]
  /// Why the command was refused.
  package var refusal: String?

  package init(_ apps: [SwitcherEntry]) { self.apps = apps }

  package static func refused(_ reason: String) -> SwitcherAnswer {
    var answer = SwitcherAnswer([])
    answer.refusal = reason
    return answer
  }

  var line: String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return (try? encoder.encode(self)).map { String(decoding: $0, as: UTF8.self) }
      ?? "the answer cannot be encoded"
  }
}

extension AppHost {
  func carryOut(_ request: SwitcherRequest) -> SwitcherAnswer {
    if request.switcher != .list {
      guard let name = request.app else { return .refused("\(request.switcher.rawValue) needs an app") }
      guard let id = id(of: name) else { return .refused("no app '\(name)' is registered") }
      if request.switcher == .terminate, [.notRunning, .terminated].contains(system.state(of: id)) {
        return .refused("app '\(name)' does not run")
      }
      do {
        if request.switcher == .bring { try launch(id) } else { try terminate(id) }
      } catch {
        return .refused("\(error)")
      }
    }
    return SwitcherAnswer(
      switcher().map {
        SwitcherEntry(
          app: $0.manifest.identifier, state: "\($0.state)", tasks: $0.openTasks.count,
          snapshot: snapshot(of: $0.id)?.count)
      })
  }
}
