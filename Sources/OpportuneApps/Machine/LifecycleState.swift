/// A state of the lifecycle table. (R-LIFE-01, R-LIFE-03)
///
/// Foreground and background have two rows each; ``operational`` says which of the states that people speak
/// of one is.
public enum LifecycleState: UInt8, Sendable, Hashable, CaseIterable, Codable {
  /// Never launched, or all of it is gone.
  case notRunning
  /// In front, and receives user input.
  case active
  /// In front, and receives none: at launch, during an interruption, or beside the active one.
  case inactive
  /// May be scheduled, shows nothing.
  case background
  /// In background, and nothing of it starts any more; a slice that runs has not ended.
  case stopping
  /// In main memory, executes nothing.
  case suspended
  /// In the hibernation store, executes nothing.
  case hibernated
  /// Its state is deleted; what is left of it is being taken back.
  case terminated

  /// The states of R-LIFE-01.
  package enum Operational: String, Sendable, Hashable, CaseIterable, Codable {
    case notRunning, foreground, background, suspended, hibernated, terminated
  }

  /// The state that people speak of.
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

  /// Whether it is in front.
  public var isForeground: Bool { operational == .foreground }
  /// Whether new work of it may start.
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
