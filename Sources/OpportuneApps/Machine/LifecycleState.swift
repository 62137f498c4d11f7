/// A state of the lifecycle table. (R-LIFE-01, R-LIFE-03)
///
/// Foreground and background are two states each; `operational` maps them to the states of R-LIFE-01.
public enum LifecycleState: UInt8, Sendable, Hashable, CaseIterable, Codable {
  /// Never launched, or ended and released.
  case notRunning
  /// In the foreground, and receives user input.
  case active
  /// In the foreground without user input: at launch, during an interruption, or beside the active app.
  case inactive
  /// May execute; shows nothing.
  case background
  /// In the background. No further code starts; a running slice has not ended.
  case stopping
  /// In main memory; executes nothing.
  case suspended
  /// In the hibernation store; executes nothing.
  case hibernated
  /// Its state is deleted; its resources are being released.
  case terminated

  /// The states of R-LIFE-01.
  package enum Operational: String, Sendable, Hashable, CaseIterable, Codable {
    case notRunning, foreground, background, suspended, hibernated, terminated
  }

  /// The state of R-LIFE-01 to which it belongs.
  package var operational: Operational {
    switch self {
    case .notRunning: .notRunning
    case .active, .inactive: .foreground
    case .background, .stopping: .background
    case .suspended: .suspended
    case .hibernated: .hibernated
    case .terminated: .terminated
    }
  }

  /// Whether it is in the foreground.
  public var isForeground: Bool { operational == .foreground }
  /// Whether new code of it may start.
  public var mayExecute: Bool { self == .active || self == .inactive || self == .background }
  /// Whether it is in main memory.
  public var isInMemory: Bool { mayExecute || self == .stopping || self == .suspended }

  /// The name in tables, logs and reports.
  package var name: String {
    switch self {
    case .notRunning: "not running"
    case .active: "foreground (active)"
    case .inactive: "foreground (inactive)"
    case .background: "background"
    case .stopping: "background (stopping)"
    case .suspended: "suspended"
    case .hibernated: "hibernated"
    case .terminated: "terminated"
    }
  }
}

extension LifecycleState: CustomStringConvertible {
  public var description: String { name }
}
