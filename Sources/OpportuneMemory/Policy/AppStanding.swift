/// The importance of an app for memory, by its lifecycle state: memory is taken in the order of the cases.
///
/// The lifecycle has more states. `background (stopping)` counts as suspended, since no new work of it
/// starts.
public enum AppStanding: UInt8, Sendable, Hashable, CaseIterable, Codable {
  /// Hibernated, terminated or never launched: it has no memory to give.
  case gone
  /// In main memory; executes nothing.
  case suspended
  /// May execute, shows nothing.
  case background
  /// In the background, and tracks the location. (R-MEM-12)
  ///
  /// An app that only waits for geofences does not count as tracking. Its geofences are watched while it is
  /// suspended or not in memory, and it has the standing of that state.
  case tracking
  /// In the background; plays or records audio. (R-MEM-11)
  case audio
  /// In the foreground, beside the active app or interrupted.
  case inactive
  /// In the foreground, and receives user input. Memory is never taken from it.
  case active

  /// Whether the app is in the foreground.
  public var isForeground: Bool { self >= .inactive }
}

extension AppStanding: Comparable {
  public static func < (left: AppStanding, right: AppStanding) -> Bool { left.rawValue < right.rawValue }
}

extension AppStanding: CustomStringConvertible {
  public var description: String {
    switch self {
    case .gone: "not in memory"
    case .suspended: "suspended"
    case .background: "in background"
    case .tracking: "tracking location in background"
    case .audio: "playing audio in background"
    case .inactive: "in front but inactive"
    case .active: "in front"
    }
  }
}
