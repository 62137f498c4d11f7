internal import OpportuneBase

/// A point in the time of a host: nanoseconds since it started. Virtual time counts in the same unit.
///
/// What is far out of range is clamped, never wrapped.
public struct Moment: InstantProtocol, Sendable, Hashable, Codable {
  /// Since the host started.
  public let nanoseconds: Int64

  /// So many nanoseconds after the start.
  public init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  /// When the host started.
  public static let zero = Moment(nanoseconds: 0)
  /// Never.
  public static let distantFuture = Moment(nanoseconds: .max)

  /// A moment so many seconds after the start.
  public static func seconds(_ seconds: Double) -> Moment {
    Moment(nanoseconds: Int64(clamping: Int128((seconds * 1e9).rounded().clamped)))
  }

  /// Seconds since the start.
  public var seconds: Double { Double(nanoseconds) / 1e9 }

  /// So much later; the last moment that there is, where that is too far.
  public func advanced(by duration: Duration) -> Moment {
    Moment(nanoseconds: nanoseconds.saturatingAdd(duration.clampedNanoseconds))
  }

  /// How much later the other is.
  public func duration(to other: Moment) -> Duration {
    .nanoseconds(other.nanoseconds) - .nanoseconds(nanoseconds)
  }

  public static func < (left: Moment, right: Moment) -> Bool { left.nanoseconds < right.nanoseconds }
  /// As ``advanced(by:)``.
  public static func + (moment: Moment, span: Duration) -> Moment { moment.advanced(by: span) }
  /// How much later the left one is.
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
  /// Within what 64 bits of nanoseconds hold; not a number is zero.
  fileprivate var clamped: Double { isNaN ? 0 : Swift.min(Swift.max(self, -9.2e18), 9.2e18) }
}
