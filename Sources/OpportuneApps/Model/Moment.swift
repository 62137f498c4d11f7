internal import OpportuneBase

/// A point in the time of a host, real or virtual: nanoseconds since the host started.
///
/// Values out of range are clamped, never wrapped.
public struct Moment: InstantProtocol, Sendable, Hashable, Codable {
  /// Nanoseconds since the host started.
  public let nanoseconds: Int64

  /// Makes a moment so many nanoseconds after the start.
  public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  /// The start of the host.
  public static let zero = Moment(nanoseconds: 0)
  /// A moment that is never reached.
  public static let distantFuture = Moment(nanoseconds: .max)

  /// Makes a moment so many seconds after the start.
  public static func seconds(_ seconds: Double) -> Moment {
    Moment(nanoseconds: Int64(clamping: Int128((seconds * 1e9).rounded().clamped)))
  }

  /// Seconds since the start.
  public var seconds: Double { Double(nanoseconds) / 1e9 }

  /// The moment that lies `duration` later, clamped to the last one.
  public func advanced(by duration: Duration) -> Moment {
    Moment(nanoseconds: nanoseconds.saturatingAdd(duration.clampedNanoseconds))
  }

  /// The duration from this moment to `other`.
  public func duration(to other: Moment) -> Duration {
    .nanoseconds(other.nanoseconds) - .nanoseconds(nanoseconds)
  }

  public static func < (left: Moment, right: Moment) -> Bool { left.nanoseconds < right.nanoseconds }
  /// Same as ``advanced(by:)``.
  public static func + (moment: Moment, span: Duration) -> Moment { moment.advanced(by: span) }
  /// The duration from `right` to `left`.
  public static func - (left: Moment, right: Moment) -> Duration { right.duration(to: left) }
}

extension Moment: CustomStringConvertible {
  public var description: String {
    let milliseconds = nanoseconds / 1_000_000
    let fraction = String(abs(milliseconds % 1000))
    return "\(milliseconds / 1000).\(String(repeating: "0", count: 3 - fraction.count))\(fraction)s"
  }
}

extension Double {
  /// Clamped to the range of 64-bit nanoseconds; not-a-number becomes zero.
  fileprivate var clamped: Double { isNaN ? 0 : Swift.min(Swift.max(self, -9.2e18), 9.2e18) }
}
