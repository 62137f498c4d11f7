import Foundation

/// The permissions at a ``PushSocket``, and the functions that carry out requests.
struct PushService: Sendable {
  let users: Set<UInt32>
  let controllers: Set<UInt32>
  let receive: @Sendable (Push) -> String?
  let control: @Sendable (SwitcherRequest) -> SwitcherAnswer

  func mayAsk(_ user: UInt32?) -> Bool {
    user.map { users.contains($0) || controllers.contains($0) } ?? false
  }

  func answer(_ line: Data?, of user: UInt32?) -> String {
    guard let line else { return "the line is longer than \(LocalSocket.longestLine) bytes" }
    let decoder = JSONDecoder()
    if let push = try? decoder.decode(Push.self, from: line) {
      guard let user, users.contains(user) else { return "this user may not push" }
      return receive(push) ?? "ok"
    }
    if let request = try? decoder.decode(SwitcherRequest.self, from: line) {
      guard let user, controllers.contains(user) else { return "this user may not use the switcher" }
      return control(request).line
    }
    return "the line is neither a push, {\"app\":…,\"kind\":…,\"payload\":{…}}, nor a command of the switcher"
  }
}
