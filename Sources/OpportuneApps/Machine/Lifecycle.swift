/// The lifecycle of an app as one table: state × event → state and effects. (R-CARD-05)
///
/// It is pure: no clock, no lock, no calls out. ``rules`` is the table; `opportune states` prints it.
package enum Lifecycle {
  /// What a rule does.
  package enum Outcome: Sendable, Hashable {
    /// The app moves to a state (possibly its current one), and the host carries out the effects.
    case move(LifecycleState, [LifecycleEffect])
    /// The event has no effect, for the given reason.
    case ignore(String)
    /// The event is not allowed here.
    case refuse(LifecycleError.Code)
  }

  /// One row of the table. The first rule of a cell whose guard holds decides.
  package struct Rule: Sendable, Hashable {
    package let state: LifecycleState
    package let event: LifecycleEvent
    package let condition: LifecycleGuard
    package let outcome: Outcome
  }

  /// The decision about an event.
  package enum Decision: Sendable, Hashable {
    case move(LifecycleState, [LifecycleEffect])
    case ignored(String)
  }

  /// Decides about an event.
  ///
  /// - Throws: ``LifecycleError`` where the table does not allow it.
  package static func decide(
    _ state: LifecycleState, _ event: LifecycleEvent, _ facts: LifecycleFacts
  ) throws(LifecycleError) -> Decision {
    for (condition, outcome) in cells[index(state, event)] where condition.holds(facts) {
      switch outcome {
      case .move(let next, let effects): return .move(next, effects)
      case .ignore(let reason): return .ignored(reason)
      case .refuse(let reason): throw LifecycleError(state: state, event: event, reason)
      }
    }
    preconditionFailure("no rule of \(state) × \(event) holds; the last of each cell has no guard")
  }

  /// The table, by state and event.
  package static let rules: [Rule] = LifecycleState.allCases.flatMap { state in
    LifecycleEvent.allCases.flatMap { event in
      cell(state, event).map { Rule(state: state, event: event, condition: $0.0, outcome: $0.1) }
    }
  }

  typealias Cell = [(LifecycleGuard, Outcome)]

  private static let cells: [Cell] = LifecycleState.allCases.flatMap { state in
    LifecycleEvent.allCases.map { cell(state, $0) }
  }

  private static func index(_ state: LifecycleState, _ event: LifecycleEvent) -> Int {
    Int(state.rawValue) * LifecycleEvent.allCases.count + Int(event.rawValue)
  }
}
