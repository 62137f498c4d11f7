import OpportuneApps
import OpportuneMemory

/// What became of the memory of a host's apps, for logs. A name is the identifier of the app's manifest.
public enum MemoryEvent: Sendable {
  /// How short memory is, from now on.
  case level(PressureLevel)
  /// An app is to go, and why.
  case removal(AppID, Removal)
  /// Its state is in the store, in so many bytes, and its memory is given back.
  case stored(AppID, name: String, bytes: Int)
  /// It was not hibernated, and is terminated instead; where ``Removal/isOptional``, it stays as it was.
  case notStored(AppID, name: String, String)
  /// Its state and its memory are as they were.
  case restored(AppID, name: String)
  /// They are not: the app has ended.
  case notRestored(AppID, name: String, String)

  /// Whose; `nil`: of all.
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
  /// As the events of the lifecycle: the app, as the host numbers it, and a sentence.
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
