import Logging
import SystemPackage

/// The descriptors that the broker made for one app: they are closed with it, and its sockets are moderated
/// as its state says.
///
/// Invariant: a socket in the table whose number is another socket's by now is never touched, and never
/// closed.
struct AppDescriptors {
  private struct Entry {
    /// Of a socket.
    let identity: SocketIdentity?
    let isSocket: Bool
    var moderation = SocketModeration()
    /// Whether it was said that its packets are not as they should be.
    var hasWarned = false

    init(_ descriptor: Int32, isSocket: Bool) {
      self.isSocket = isSocket
      identity = isSocket ? SocketIdentity(of: descriptor) : nil
    }

    /// Whether the number is no other socket's, after a close behind the broker's back.
    func isStill(_ descriptor: Int32) -> Bool { !isSocket || SocketIdentity(of: descriptor) == identity }
  }

  private var entries: [Int32: Entry] = [:]

  var count: Int { entries.count }
  var numbers: [Int32] { Array(entries.keys) }

  mutating func add(_ descriptor: Int32, isSocket: Bool) {
    entries[descriptor] = Entry(descriptor, isSocket: isSocket)
  }

  mutating func remove(_ descriptor: Int32) { entries[descriptor] = nil }

  /// Empties the table, and returns what is still to be closed.
  mutating func takeAll() -> [Int32] {
    defer { entries = [:] }
    return entries.filter { $0.value.isStill($0.key) }.map(\.key)
  }

  /// - Returns: why the socket's packets are not as `restriction` says; nil where they are, or where it was
  ///   returned before.
  fileprivate mutating func moderate(
    _ descriptor: Int32, _ restriction: IOConfiguration.SocketRestriction, isKeptAlive: Bool
  ) -> Errno? {
    guard var entry = entries[descriptor], entry.isSocket else { return nil }
    guard entry.isStill(descriptor) else {
      entries[descriptor] = nil
      return nil
    }
    defer { entries[descriptor] = entry }
    do throws(Errno) {
      try entry.moderation.apply(restriction, to: descriptor, isKeptAlive: isKeptAlive)
      return nil
    } catch {
      defer { entry.hasWarned = true }
      return entry.hasWarned ? nil : error
    }
  }
}

/// Makes sockets as the settings have them for their app's state. Has no state of its own. The reactor's.
final class SocketModerator {
  private let configuration: IOConfiguration
  private let logger: Logger

  init(_ configuration: IOConfiguration, _ logger: Logger) {
    self.configuration = configuration
    self.logger = logger
  }

  func moderateAll(of app: AppEntry) {
    for descriptor in app.descriptors.numbers { moderate(descriptor, of: app) }
  }

  func moderate(_ descriptor: Int32, of app: AppEntry) {
    let restriction = restriction(of: app)
    let isKeptAlive = app.watches.contains { $0.watches(descriptor) }
    guard let error = app.descriptors.moderate(descriptor, restriction, isKeptAlive: isKeptAlive) else {
      return
    }
    logger.warning(
      restriction.dropsIncoming
        ? "a socket keeps its packets, though its app's state drops them: its own filter stays"
        : "a socket's own packet filter cannot be restored",
      metadata: ["app": "\(app.name)", "socket": "\(descriptor)", "reason": "\(error)"])
  }

  private func restriction(of app: AppEntry) -> IOConfiguration.SocketRestriction {
    switch app.state(on: .network) {
    case .active: .none
    case .inactive: configuration.network.limitsInactive ? configuration.backgroundSockets : .none
    case .background: configuration.backgroundSockets
    case .suspended: configuration.suspendedSockets
    }
  }
}
