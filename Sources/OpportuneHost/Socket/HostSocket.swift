import Foundation
internal import Glibc
package import OpportuneApps

/// The socket of a host: only processes of its own user are served.
package enum HostSocket {
  /// By it programs that join find their host.
  package static let variable = "OPPORTUNE_SOCKET"

  /// Where a host listens unless something else is said.
  ///
  /// - Returns: `nil` where there is no folder for it: the variable `XDG_RUNTIME_DIR` is not set.
  package static func standardPath(
    user: UInt32 = geteuid(), environment: [String: String] = ProcessInfo.processInfo.environment
  ) -> String? {
    if user == 0 { return "/run/opportune/host.sock" }
    guard let folder = environment["XDG_RUNTIME_DIR"], folder.hasPrefix("/") else { return nil }
    return folder + "/opportune/host.sock"
  }

  /// What tells the groups of a host with this socket from those of others: FNV-1a of the path.
  package static func key(of path: String) -> String {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    for byte in "\(geteuid()):\(path)".utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    return String(hash, radix: 16)
  }

  /// Where a host with this socket has the states that programs save: a folder that outlives the machine's
  /// run. `nil` where the environment does not tell.
  package static func stateFolder(
    of path: String, user: UInt32 = geteuid(),
    environment: [String: String] = ProcessInfo.processInfo.environment
  ) -> String? {
    if user == 0 { return "/var/lib/opportune/" + key(of: path) }
    func folder(_ variable: String, _ rest: String) -> String? {
      environment[variable].flatMap { $0.hasPrefix("/") ? $0 + rest : nil }
    }
    return (folder("XDG_STATE_HOME", "") ?? folder("HOME", "/.local/state")).map {
      $0 + "/opportune/" + key(of: path)
    }
  }

  /// Opens it, before the host: it says whether another one lives, whose groups are not to be touched.
  ///
  /// - Parameters:
  ///   - say: called while it opens, as of ``LineSocket``.
  ///   - log: called on the socket's thread where another user has asked, which is refused.
  ///   - host: asked at each request; `nil` while it starts or ends.
  /// - Throws: ``PushError``, as ``LineSocket``.
  package static func open(
    at path: String, say: (String) -> Void = { _ in }, log: @escaping @Sendable (String) -> Void = { _ in },
    host: @escaping @Sendable () -> ProcessHost?
  ) throws(PushError) -> LineSocket {
    let own = geteuid()
    return try LineSocket(
      path: path, mode: 0o600, say: say, mayAsk: { $0 == own },
      answer: { line, user in
        guard user == own else {
          log("a request of user \(user.map(userName) ?? "unknown") was refused")
          return HostAnswer.refused("it is the host of user \(userName(own)), who alone may ask").line
        }
        guard let line else {
          return HostAnswer.refused("the line is longer than \(LocalSocket.longestLine) bytes").line
        }
        guard let host = host() else { return HostAnswer.refused("the host starts or ends").line }
        return text(line, host)
      },
      handOver: { line, descriptor, user in
        // Looked at twice only if it may be one.
        guard user == own, line.range(of: Data("join".utf8)) != nil, let host = host(),
          let request = HostRequest.read(line), request.request == .join
        else { return .no }
        do throws(ProcessHostError) {
          try host.join(descriptor, pid: process(of: descriptor), restarts: request.restarts == true)
        } catch {
          return .refused(HostAnswer.refused(error.message).line)
        }
        return .taken
      })
  }

  /// A push, as hosts of apps inside a program take it, is answered as these do: by `ok` or the reason.
  private static func text(_ line: Data, _ host: ProcessHost) -> String {
    guard let push = try? JSONDecoder().decode(Push.self, from: line) else { return answer(line, host).line }
    do throws(ProcessHostError) {
      _ = try host.notify(push.app, Message(push.kind, payload: push.payload ?? [:]))
    } catch {
      return error.message
    }
    return "ok"
  }

  static func answer(_ line: Data, _ host: ProcessHost) -> HostAnswer {
    guard let request = HostRequest.read(line) else {
      let actions = HostRequest.Action.allCases.map(\.rawValue).joined(separator: ", ")
      return .refused(#"the line is no request, {"request":…}, with one of "# + actions)
    }
    do throws(ProcessHostError) {
      return try carryOut(request, host)
    } catch {
      return .refused(error.message)
    }
  }

  /// What the socket and the bus do on a request.
  static func carryOut(_ request: HostRequest, _ host: ProcessHost) throws(ProcessHostError)
    -> HostAnswer
  {
    var answer = HostAnswer()
    if request.request == .apps {
      answer.apps = (host.apps() + (request.all == true ? host.known() : [])).sorted { $0.id < $1.id }
      answer.confined = Confinement.isOn
      return answer
    }
    if request.request == .join { return .refused("join: nothing may be sent before its answer") }
    if request.request == .adopt {
      guard let pid = request.pid else { return .refused("adopt needs a pid") }
      let (name, mark) = try host.adopt(
        pid, isTree: request.alone != true, name: request.name,
        isExact: request.name != nil && request.derived != true, foreground: request.foreground == true,
        restart: request.restart)
      (answer.name, answer.mark) = (name, mark)
      answer.notes = notes(of: name, host)
      if let held = host.heldDevices(of: name) { answer.notes = (answer.notes ?? []) + [held] }
      return answer
    }
    if request.request == .warn, request.name == nil {
      let done = try host.memoryIsShort()
      answer.notes = done.isEmpty ? nil : done
      return answer
    }
    guard let name = request.name else { return .refused("\(request.request.rawValue) needs a name") }
    if request.request == .notify { return try notify(name, request, host) }
    let told = notes(of: name, host) ?? []
    switch request.request {
    case .apps, .adopt, .join, .notify: break
    case .warn: try host.warn(name)
    case .start: answer.pid = try host.start(name, foreground: request.foreground == true)
    case .front: try host.bringForward(name)
    case .suspend, .hibernate:
      let (locks, again) = (request.locks, request.again == true)
      let goesOn =
        try request.request == .suspend
        ? host.suspend(name, locks: locks, isAgain: again)
        : host.hibernate(name, locks: locks, isAgain: again)
      if let (wait, reason) = goesOn {
        answer.wait = max(0, wait / .seconds(1))
        answer.notes = ["app '\(name)' goes on for now: \(reason)"]
        return answer
      }
    case .keep:
      if request.end == true {
        try host.endKeeping(name)
      } else {
        try host.keep(name, seconds: request.seconds, reason: request.reason)
      }
    case .resume: try host.resume(name)
    case .terminate: try host.terminate(name)
    }
    answer.notes = notes(of: name, host)
    // Who brings it forward is told each time what is not as in front; else what is new.
    if request.request != .front, request.request != .start {
      let new = answer.notes?.filter { !told.contains($0) } ?? []
      answer.notes = new.isEmpty ? nil : new
    }
    return answer
  }

  private static func notify(
    _ name: String, _ request: HostRequest, _ host: ProcessHost
  ) throws(ProcessHostError) -> HostAnswer {
    var answer = HostAnswer()
    let number: UInt64
    if request.again == true {
      guard let sent = request.message else { return .refused("notify with again needs a message") }
      number = sent
    } else {
      guard let kind = request.kind else { return .refused("notify needs a kind") }
      number = try host.notify(name, Message(kind, payload: request.payload ?? [:]))
    }
    answer.message = number
    let (isAnswered, reply) = try host.reply(to: number, of: name)
    answer.reply = reply
    if !isAnswered { answer.wait = 0.05 }
    return answer
  }

  /// `nil` where there are none.
  private static func notes(of name: String, _ host: ProcessHost) -> [String]? {
    // What is missing for all was told when the host started, and is told in lists.
    let known = host.notes
    let notes = host.notes(of: name).filter { !known.contains($0) }
    return notes.isEmpty ? nil : notes
  }
}
