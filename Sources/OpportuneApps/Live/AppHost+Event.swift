extension AppHost {
  /// An event that a host observed, or an effect that it carried out, with its time.
  public struct Event: Sendable, Hashable, CustomStringConvertible {
    /// The time since the host was made.
    public let moment: Moment
    /// The app.
    public let app: AppID
    /// What happened.
    public let action: AppEffect

    public var description: String { "\(moment) \(app): \(action)" }
  }
}
