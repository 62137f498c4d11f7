import Logging

extension Logger {
  /// A logger of which `body` hears all that is said, on the thread that says it.
  public init(telling body: @escaping @Sendable (LogEvent) -> Void) {
    self.init(label: "test", factory: { _ in TellingHandler(body: body) })
  }
}

private struct TellingHandler: LogHandler {
  let body: @Sendable (LogEvent) -> Void
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.trace

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) { body(event) }
}
