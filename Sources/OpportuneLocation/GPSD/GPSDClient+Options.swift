import OpportuneApps

extension GPSDClient {
  /// How patient a client is, and what it takes a fix of unknown accuracy for.
  public struct Options: Sendable, Hashable {
    /// Without a line for so long the connection counts as dead; gpsd reports once a second. 1 s to a day.
    public var silence: Duration = .seconds(30)
    /// Without a fix for so long there is none to be had; 1 s to a day.
    public var patience: Duration = .seconds(5)
    /// Before the first new attempt; doubled with each that fails. 10 ms to a day.
    public var retry: Duration = .seconds(1)
    /// The longest time between two attempts. At least `retry`, at most a day.
    public var retryMax: Duration = .seconds(60)
    /// Standard deviation in metres, where gpsd says no accuracy; 0.1 to 10,000.
    public var deviation = 5.0

    /// As each setting says by default.
    public init() {}

    /// Checks all settings.
    ///
    /// - Throws: ``LocationError`` with the code `outOfRange`.
    public func validate() throws(LocationError) {
      try check(silence.inSeconds, "silence in seconds", within: 1...86_400)
      try check(patience.inSeconds, "patience in seconds", within: 1...86_400)
      try check(retry.inSeconds, "retry in seconds", within: 0.01...86_400)
      try check(retryMax.inSeconds, "retryMax in seconds", within: retry.inSeconds...86_400)
      try check(deviation, "deviation in metres", within: 0.1...10_000)
    }
  }
}
