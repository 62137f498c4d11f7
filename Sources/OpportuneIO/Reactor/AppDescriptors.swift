import Logging
import SystemPackage

/// The descriptors that the broker made for one app. They are closed with the app, and its sockets are
/// restricted as the app's state requires.
///
/// Invariant: if the number of a socket in the table belongs to another socket by now, that socket is never
/// touched and never closed.
struct AppDescriptors {
  private struct Entry {
    /// Sockets only.
    let identity: SocketIdentity?
    let isSocket: Bool
    var moderation = SocketModeration()
    /// Whether a warning about the socket's packets has been returned before.
    var hasWarned = false

    init(_ descriptor: Int32, isSocket: Bool) {
      self.isSocket = isSocket
      identity = isSocket ? SocketIdentity(of: descriptor) : nil
    }

    /// Whether the number still belongs to the same socket. It may not, after a close that bypassed the
    /// broker.
    func isStill(_ descriptor: Int32) -> Bool { !isSocket || SocketIdentity(of: descriptor) == identity }
  }

  private var entries: [Int32: Entry] = [:]

  var count: Int { entries.count }
  var numbers: [Int32] { Array(entries.keys) }

  mutating func add(_ descriptor: Int32, isSocket: Bool) {
    entries[descriptor] = Entry(descriptor, isSocket: isSocket)
  }

  func hasSocket(_ descriptor: Int32) -> Bool { entries[descriptor]?.isSocket ?? false }

  mutating func remove(_ descriptor: Int32) { entries[descriptor] = nil }

  /// Empties the table, and returns the descriptors that the caller must close.
  mutating func takeAll() -> [Int32] {
    defer { entries = [:] }
    return entries.filter { $0.value.isStill($0.key) }.map(\.key)
  }

  /// - Returns: why the socket's packets do not follow `restriction`; nil where they do, or where the reason
  ///   was returned before.
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

/// Applies the configured restrictions to sockets, by their app's state. Stateless. Reactor's thread only.
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
