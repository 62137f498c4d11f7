/// Why a policy was refused.
public struct PolicyError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The kind of error.
  public enum Code: Sendable, Hashable {
    /// A setting is out of its range; given by its path, such as `tasks.maximum`.
    case outOfRange(setting: String)
  }

  /// The kind of error.
  public let code: Code
  /// For people: the setting, its value, and what was expected.
  public let message: String

  init(setting: String, value: String, limit: String) {
    code = .outOfRange(setting: setting)
    message = "policy: \(setting) is \(value), expected \(limit)"
  }

  public static func == (left: PolicyError, right: PolicyError) -> Bool { left.code == right.code }

  public var description: String { message }
}

extension AppsPolicy {
  /// Checks every setting that has a limit.
  ///
  /// - Throws: ``PolicyError``, for the first that is out of range.
  public func validate() throws(PolicyError) {
    let spans: [(String, Duration?, Bool)] = [
      ("callbackLimit", callbackLimit, false), ("eventTime", eventTime, false), ("grace", grace, true),
      ("sliceAllowance", sliceAllowance, true), ("tasks.wallClock", tasks.wallClock, false),
      ("tasks.cpuTime", tasks.cpuTime, false), ("tasks.handlerTime", tasks.handlerTime, false),
      ("tasks.idleLimit", tasks.idleLimit, false),
      ("network.minimumHeartbeat", network.minimumHeartbeat, false),
      ("fetch.shortest", fetch.shortest, false), ("fetch.longest", fetch.longest, false),
      ("fetch.limit", fetch.limit, false),
    ]
    for (name, span, mayBeZero) in spans {
      guard let span, span < .zero || (span == .zero && !mayBeZero) else { continue }
      throw PolicyError(setting: name, value: "\(span)", limit: mayBeZero ? "0 or more" : "more than 0")
    }
    if case .batch(let span) = messages.delivery, span <= .zero {
      throw PolicyError(setting: "messages.delivery", value: "every \(span)", limit: "more than 0")
    }
    let counts = [("maximumForeground", maximumForeground), ("tasks.maximum", tasks.maximum)]
    for (name, count) in counts where count < 1 {
      throw PolicyError(setting: name, value: "\(count)", limit: "1 or more")
    }
    guard audio.maximum >= 0 else {
      throw PolicyError(setting: "audio.maximum", value: "\(audio.maximum)", limit: "0 or more")
    }
    guard fetch.shortest <= fetch.longest else {
      throw PolicyError(
        setting: "fetch.shortest", value: "\(fetch.shortest)", limit: "at most \(fetch.longest)")
    }
  }
}
