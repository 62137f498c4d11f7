internal import Glibc
internal import OpportuneApps

/// An app is not suspended, by a user's wish, until an end.
package struct Exemption: Sendable, Hashable {
  /// `nil`: until it is taken back.
  let end: Moment?
  /// The same on the clock of the wall, in seconds since 1970, for people.
  let endShown: Int64?
  let reason: String?

  /// The longest reason, in characters.
  package static let longestReason = 200
  /// The longest time, in seconds.
  package static let longestTime: Double = 366 * 86_400

  /// - Throws: ``ProcessHostError``: `value`.
  init(seconds: Double?, reason: String?, now: Moment, wall: Int64) throws(ProcessHostError) {
    if let seconds, !(seconds > 0 && seconds <= Self.longestTime) {
      throw ProcessHostError(
        .value("the time", "\(seconds)", "expected more than 0 and at most \(Int(Self.longestTime)) seconds"))
    }
    if let reason, reason.count > Self.longestReason {
      throw ProcessHostError(
        .value("the reason", "\(reason.count) characters", "expected at most \(Self.longestReason)"))
    }
    end = seconds.map { now + .seconds($0) }
    endShown = seconds.map { wall + Int64($0.rounded()) }
    self.reason = reason.flatMap { $0.isEmpty ? nil : $0 }
  }

  func isOver(at now: Moment) -> Bool { end.map { $0 <= now } == true }

  /// As `exempt until 18:00: the build is needed`.
  var text: String {
    let until = endShown.map { " until " + Self.clock($0) } ?? ""
    return "exempt" + until + (reason.map { ": " + $0 } ?? "")
  }

  private static func clock(_ time: Int64) -> String {
    var (time, parts) = (time_t(time), tm())
    let isSoon = time - Glibc.time(nil) < 86_400
    localtime_r(&time, &parts)
    func two(_ number: Int32) -> String { (number < 10 ? "0" : "") + "\(number)" }
    let hour =
      two(parts.tm_hour) + ":" + two(parts.tm_min) + (parts.tm_sec == 0 ? "" : ":" + two(parts.tm_sec))
    if isSoon { return hour }
    return "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday)) \(hour)"
  }

  /// The seconds to the next moment at which the local clock shows `HH:MM`.
  ///
  /// - Returns: `nil` where that is no time of a day.
  package static func seconds(until text: String, now: Int64) -> Double? {
    let words = text.split(separator: ":", omittingEmptySubsequences: false)
    guard words.count == 2,
      words.allSatisfy({ (1...2).contains($0.utf8.count) && $0.allSatisfy(\.isNumber) }),
      let hour = Int32(words[0]), let minute = Int32(words[1]), hour < 24, minute < 60
    else { return nil }
    var (time, today) = (time_t(now), tm())
    localtime_r(&time, &today)
    for day in Int32(0)...1 {
      var wanted = today
      (wanted.tm_mday, wanted.tm_hour, wanted.tm_min) = (today.tm_mday + day, hour, minute)
      (wanted.tm_sec, wanted.tm_isdst) = (0, -1)
      let found = mktime(&wanted)
      if found > time { return Double(found - time) }
    }
    return nil
  }

  /// The seconds of a duration such as `90`, `90s`, `15m`, `1.5h` or `2d`.
  ///
  /// - Returns: `nil` where it is none, or not of a possible length.
  package static func seconds(of text: String) -> Double? {
    let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400]
    let unit = text.last.flatMap { units[$0] }
    let number = unit == nil ? Substring(text) : text.dropLast()
    guard number.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }), let value = Double(number) else {
      return nil
    }
    let seconds = value * (unit ?? 1)
    return seconds > 0 && seconds <= longestTime ? seconds : nil
  }
}
