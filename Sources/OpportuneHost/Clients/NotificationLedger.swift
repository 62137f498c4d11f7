package import OpportuneApps

/// The local notifications of programs, by app and by the name that the program gives each.
///
/// Pure: the wall clock, in seconds since 1970, comes with each call. (R-MSG-02, R-MSG-09, R-MSG-10)
struct NotificationLedger {
  /// The most of an app that are to fire, and as many that have fired and were not told.
  static let most = 64
  /// The longest name, in bytes.
  static let longestName = 64

  struct Scheduled: Hashable {
    let name: String
    let notification: LocalNotification
    /// When it fires next.
    var fires: Double
  }

  /// One that has fired.
  struct Fired: Hashable {
    let app: String
    let name: String
    let notification: LocalNotification
  }

  private var scheduled: [String: [Scheduled]] = [:]
  /// Those that were not told yet, the first first.
  private(set) var due: [Fired] = []

  /// In place of one of the same name.
  ///
  /// - Returns: when it fires.
  mutating func schedule(
    _ notification: LocalNotification, as name: String, of app: String, wall: Double
  ) throws(ProcessHostError) -> Double {
    let bytes = name.utf8.count
    guard (1...Self.longestName).contains(bytes), !name.utf8.contains(0) else {
      throw ProcessHostError(
        .value(
          "the name of the notification", "\(bytes) bytes long",
          "expected 1 to \(Self.longestName) bytes, none of them null"))
    }
    try Message.told(notification, as: name).checkFits()
    guard let fires = notification.nextFire(after: wall, isFirst: true) else {
      throw ProcessHostError(
        .value(
          "the date of the notification", "\(notification.fireDate)",
          "expected one within \(Int64(LocalNotification.latest)) s of 1970"))
    }
    let others = pending(of: app).filter { $0.name != name }
    guard others.count < Self.most else {
      throw ProcessHostError(
        .lifecycle(app, "\(Self.most) notifications of it are to fire, the most there may be"))
    }
    scheduled[app] = others + [Scheduled(name: name, notification: notification, fires: fires)]
    return fires
  }

  /// Also one that has fired and was not told yet.
  ///
  /// - Parameter name: `nil`: all of the app.
  mutating func cancel(_ name: String?, of app: String) {
    scheduled[app]?.removeAll { name == nil || $0.name == name }
    if scheduled[app]?.isEmpty == true { scheduled[app] = nil }
    due.removeAll { $0.app == app && (name == nil || $0.name == name) }
  }

  /// Those of an app that are to fire, the next first.
  func pending(of app: String) -> [Scheduled] {
    (scheduled[app] ?? []).sorted { ($0.fires, $0.name) < ($1.fires, $1.name) }
  }

  func count(of app: String) -> Int { scheduled[app]?.count ?? 0 }

  /// When the next of all fires; `nil`: there is none.
  var next: Double? { scheduled.values.joined().map(\.fires).min() }

  /// Those that fire by now, in the order of their times; they are due until ``take(_:)``.
  mutating func fire(wall: Double) -> [Fired] {
    var fired: [(at: Double, what: Fired)] = []
    for (app, all) in scheduled {
      var kept: [Scheduled] = []
      for var one in all {
        guard one.fires <= wall else {
          kept.append(one)
          continue
        }
        fired.append((one.fires, Fired(app: app, name: one.name, notification: one.notification)))
        guard let next = one.notification.nextFire(after: wall, isFirst: false) else { continue }
        one.fires = next
        kept.append(one)
      }
      scheduled[app] = kept.isEmpty ? nil : kept
    }
    let new = fired.sorted { ($0.at, $0.what.app, $0.what.name) < ($1.at, $1.what.app, $1.what.name) }
      .map(\.what)
    // One that was not told the last time is told once.
    due.removeAll { old in new.contains { $0.app == old.app && $0.name == old.name } }
    due += new
    return new
  }

  /// - Returns: the first of an app that is due, which is told now.
  mutating func take(_ app: String) -> Fired? {
    due.firstIndex { $0.app == app }.map { due.remove(at: $0) }
  }
}

extension Message {
  /// What a program hears of its notification: as an app inside a program, and its name.
  static func told(_ notification: LocalNotification, as name: String) -> Message {
    var message = Message(notification)
    message.payload["name"] = name
    return message
  }
}

/// A local notification of an app has fired, for who shows it to the user.
package struct FiredNotification: Sendable, Hashable {
  /// The app's name.
  package var app: String
  package var notification: LocalNotification
}
