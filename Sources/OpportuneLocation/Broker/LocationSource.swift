/// Where fixes come from: ``GPSDClient``, or what the embedding program makes of a receiver of its own.
/// (R-LOC-08)
///
/// ```swift
/// for await update in source.updates() {
///   let effects = try system.handle(update.event(of: source.kind), at: host.now)
/// }
/// ```
public protocol LocationSource: Sendable {
  /// What it is, by which ``LocationEffect/source(_:)`` says whether it is to run.
  var kind: SourceKind { get }

  /// Runs it, until nobody reads the sequence any more or nothing more can come. Any thread.
  func updates() -> AsyncStream<SourceUpdate>
}

/// What a source tells.
public enum SourceUpdate: Sendable, Hashable {
  /// Its time is the host's, and not in the future.
  case fix(Fix)
  /// Whether fixes can be had. Told when it changes, and once at the beginning where it is false.
  case available(Bool)
  /// The cell that serves the device.
  case cell(UInt64)

  /// For a ``LocationSystem``.
  public func event(of kind: SourceKind) -> LocationEvent {
    switch self {
    case .fix(let fix): .fix(fix)
    case .available(let isAvailable): .available(kind, isAvailable)
    case .cell(let number): .cell(number)
    }
  }
}
