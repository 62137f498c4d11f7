/// The facts about an app on which guards depend.
package struct LifecycleFacts: OptionSet, Sendable, Hashable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Multitasking is supported, and the app has not opted out of it.
  package static let backgroundAllowed = LifecycleFacts(rawValue: 1 << 0)
  /// Events may launch it while it does not run.
  package static let launchedByEvents = LifecycleFacts(rawValue: 1 << 1)
  /// It holds a lock that suspension would require it to lose, and that cannot be revoked.
  package static let holdsLocks = LifecycleFacts(rawValue: 1 << 2)
  /// A service keeps it in the background.
  package static let asserted = LifecycleFacts(rawValue: 1 << 3)
  /// An interruption has not ended, or another app receives the user's input.
  package static let interrupted = LifecycleFacts(rawValue: 1 << 4)

  /// Every combination.
  package static let all: [LifecycleFacts] = (0..<32).map(LifecycleFacts.init(rawValue:))
}

/// A condition of a rule.
package enum LifecycleGuard: Sendable, Hashable {
  case always
  case fact(LifecycleFacts)
  case not(LifecycleFacts)

  func holds(_ facts: LifecycleFacts) -> Bool {
    switch self {
    case .always: true
    case .fact(let fact): facts.contains(fact)
    case .not(let fact): facts.isDisjoint(with: fact)
    }
  }

  /// As the table prints it; empty for `always`.
  package var name: String {
    switch self {
    case .always: ""
    case .fact(let fact): fact.name
    case .not(let fact): "not \(fact.name)"
    }
  }
}

extension LifecycleFacts {
  fileprivate var name: String {
    switch self {
    case .backgroundAllowed: "background allowed"
    case .launchedByEvents: "launched by events"
    case .holdsLocks: "holds locks"
    case .asserted: "asserted"
    case .interrupted: "interrupted"
    default: "facts \(rawValue)"
    }
  }
}
