extension AppHost {
  /// What a host saw or did for an app, and when.
  public struct Event: Sendable, Hashable, CustomStringConvertible {
    /// Since the host was made.
    public let moment: Moment
    /// Whose.
    public let app: AppID
    /// What happened.
    public let action: AppEffect

    public var description: String { "\(moment) \(app): \(action)" }
  }
}
