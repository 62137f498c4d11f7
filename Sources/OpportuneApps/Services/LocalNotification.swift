import Foundation

/// A notification that an app schedules for itself; it fires in any state of the app. (R-MSG-09, R-MSG-10)
///
/// The user sees it (``AppEffect/notify(_:)``), and its app receives it like a push, with origin `local`,
/// kind "notification", and `body`, `action` and `sound` in its payload. (R-MSG-02, R-MSG-03)
public struct LocalNotification: Sendable, Hashable {
  /// When it fires.
  public enum FireDate: Sendable, Hashable {
    /// At an instant: seconds since 1970.
    case instant(Double)
    /// At a local time of the time zone. If a time change skips that time, at the next instant after it.
    case local(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int)
  }

  /// How often it fires.
  public enum Repeat: String, Sendable, Hashable, CaseIterable, Codable {
    /// Once.
    case never
    /// Each day at the same time.
    case daily
    /// Each week at the same time.
    case weekly
  }

  /// When it fires for the first time.
  public var fireDate: FireDate
  /// An identifier of the time zone database, such as `Europe/Berlin`. Repeats keep its local time across
  /// changes of daylight saving. An unknown identifier means UTC.
  public var timeZone: String
  /// How often it repeats.
  public var repeats: Repeat
  /// The text that the user reads.
  public var body: String
  /// The title of the button, such as "View Details".
  public var action: String?
  /// The name of a sound; `nil` is none.
  public var sound: String?

  /// A notification, for ``AppAction/schedule(_:)``.
  public init(
    fireDate: FireDate, timeZone: String = "UTC", repeats: Repeat = .never, body: String,
    action: String? = nil,
    sound: String? = nil
  ) {
    self.fireDate = fireDate
    self.timeZone = timeZone
    self.repeats = repeats
    self.body = body
    self.action = action
    self.sound = sound
  }

  /// The limit of dates, in seconds before or after 1970: about 30,000 years.
  public static let latest = 1e12

  /// Whether its date exists in the calendar and is within ``latest``; other dates are refused.
  package var isDateValid: Bool {
    switch fireDate {
    case .instant(let instant): return abs(instant) <= Self.latest  // false for not-a-number
    case .local(let year, let month, let day, let hour, let minute, let second):
      guard (1...30_000).contains(year), (1...12).contains(month), (1...31).contains(day) else {
        return false
      }
      guard (0..<24).contains(hour), (0..<60).contains(minute), (0...60).contains(second) else {
        return false
      }
      return DateComponents(year: year, month: month, day: day).isValidDate(
        in: Calendar(identifier: .gregorian))
    }
  }

  /// The next time at which it fires after `seconds` since 1970; `nil` is never.
  ///
  /// - Parameters:
  ///   - seconds: within ``latest``; the result is `nil` for other values, and where ``isDateValid`` is
  ///     false.
  ///   - isFirst: whether it has not fired yet. If so, a single date in the past fires at once.
  package func nextFire(after seconds: Double, isFirst: Bool) -> Double? {
    guard isDateValid, abs(seconds) <= Self.latest else { return nil }
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = TimeZone(identifier: timeZone) ?? TimeZone(secondsFromGMT: 0) ?? calendar.timeZone
    let first: Double
    switch fireDate {
    case .instant(let instant): first = instant
    case .local(let year, let month, let day, let hour, let minute, let second):
      let parts = DateComponents(
        year: year, month: month, day: day, hour: hour, minute: minute, second: second)
      guard let date = calendar.date(from: parts) else { return nil }
      first = date.timeIntervalSince1970
    }
    let step: Int
    switch repeats {
    case .never: return isFirst ? first : nil
    case .daily: step = 1
    case .weekly: step = 7
    }
    if first > seconds || (isFirst && first == seconds) { return first }
    let start = Date(timeIntervalSince1970: first)
    // Skips whole periods at once: a long sleep costs nothing.
    var count = max(0, Int((seconds - first) / 86_400 / Double(step)) - 1)
    while true {
      guard let next = calendar.date(byAdding: .day, value: count * step, to: start) else { return nil }
      if next.timeIntervalSince1970 > seconds { return next.timeIntervalSince1970 }
      count += 1
    }
  }
}
