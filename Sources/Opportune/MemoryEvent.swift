import OpportuneApps
import OpportuneMemory

/// An event of the memory management of a host's apps, for logs. A name is the identifier of the app's
/// manifest.
public enum MemoryEvent: Sendable {
  /// The new pressure level.
  case level(PressureLevel)
  /// An app is to be removed; the reason.
  case removal(AppID, Removal)
  /// Its state was saved with this many bytes, and its memory was released.
  case stored(AppID, name: String, bytes: Int)
  /// It was not hibernated, and is terminated instead; if `Removal.isOptional`, it is left unchanged. Of an
  /// idle app that cannot be hibernated it is told without a ``removal(_:_:)`` before, once for each
  /// suspension.
  case notStored(AppID, name: String, String)
  /// Its state and its memory were restored.
  case restored(AppID, name: String)
  /// They could not be restored: the app has ended.
  case notRestored(AppID, name: String, String)

  /// The app; `nil` for an event of all apps.
  public var app: AppID? {
    switch self {
    case .level: nil
    case .removal(let app, _), .stored(let app, _, _), .notStored(let app, _, _), .restored(let app, _),
      .notRestored(let app, _, _):
      app
    }
  }
}

extension MemoryEvent: CustomStringConvertible {
  /// The app by its number in the host, and a sentence, like the lifecycle's events.
  public var description: String { app.map { "\($0): \(sentence)" } ?? sentence }

  private var sentence: String {
    switch self {
    case .level(let level): "memory pressure is \(level)"
    case .removal(_, let removal): removal.reason
    case .stored(_, let name, let bytes): "\(name) is in the hibernation store, in \(bytes) bytes"
    case .notStored(_, let name, let why): "\(name) was not hibernated: \(why)"
    case .restored(_, let name): "\(name) is back from the hibernation store"
    case .notRestored(_, let name, let why):
      "\(name) has ended, since it did not come back from the store: \(why)"
    }
  }
}
