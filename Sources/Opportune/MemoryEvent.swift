import OpportuneApps
import OpportuneMemory

/// What became of the memory of a host's apps, for logs.
public enum MemoryEvent: Sendable {
  case level(PressureLevel)
  /// An app is to go, and why.
  case removal(AppID, Removal)
  /// Its state is in the store, in so many bytes, and its memory is given back.
  case stored(AppID, bytes: Int)
  /// It was not hibernated, and is terminated instead; where ``Removal/isOptional``, it stays as it was.
  case notStored(AppID, String)
  /// Its state and its memory are as they were.
  case restored(AppID)
  /// They are not: the app has ended.
  case notRestored(AppID, String)
}

extension MemoryEvent: CustomStringConvertible {
  public var description: String {
    switch self {
    case .level(let level): "memory pressure is \(level)"
    case .removal(_, let removal): removal.reason
    case .stored(let app, let bytes): "\(app) is in the hibernation store, in \(bytes) bytes"
    case .notStored(let app, let why): "\(app) was not hibernated: \(why)"
    case .restored(let app): "\(app) is back from the hibernation store"
    case .notRestored(let app, let why): "\(app) has ended, since it did not come back from the store: \(why)"
    }
  }
}
