/// What an app has of the network while it is in background, but for that of the machine itself.
package enum NetworkLimit: Sendable, Hashable {
  case none
  /// It receives so much at most, and sends as much; those who send to it slow down. (R-NET-02, R-NET-08)
  case rate(ByteRate)
  /// Nothing goes and nothing comes. (R-NET-01, R-NET-08)
  case denied

  package static let expected = "allow, deny, or " + ByteRate.expected

  /// Reads `allow`, `deny`, or a rate.
  ///
  /// - Returns: `nil` where it is none of these: ``expected``.
  package init?(_ text: String) {
    switch text {
    case "allow": self = .none
    case "deny": self = .denied
    default:
      guard let rate = ByteRate(text) else { return nil }
      self = .rate(rate)
    }
  }
}

extension NetworkLimit: CustomStringConvertible {
  /// As it is read.
  package var description: String {
    switch self {
    case .none: "allow"
    case .rate(let rate): rate.description
    case .denied: "deny"
    }
  }
}
