/// How far an app is from the person in front, as far as memory is concerned: who comes first gives first.
///
/// The lifecycle has more states; `background (stopping)` counts as suspended, since nothing of it starts any
/// more.
public enum AppStanding: UInt8, Sendable, Hashable, CaseIterable, Codable {
  /// Hibernated, terminated or never launched: it has no memory to give.
  case gone
  /// In main memory, executes nothing.
  case suspended
  /// May execute, shows nothing.
  case background
  /// In background, and follows the location. (R-MEM-12)
  ///
  /// Who only waits for its geofences is watched for while it is suspended, or not in memory at all, and goes
  /// as such.
  case tracking
  /// In background, and plays or records. (R-MEM-11)
  case audio
  /// In front, beside the active app or interrupted.
  case inactive
  /// In front, and receives user input. Nothing is ever taken from it.
  case active

  /// In front.
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
