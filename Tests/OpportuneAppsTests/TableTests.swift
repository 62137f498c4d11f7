import OpportuneApps
import TestSupport
import Testing

@Suite(.bounded) struct TableTests {
  // R-LIFE-01
  @Test func everyPairIsDecidedForAllFacts() throws {
    var pairs = 0
    for state in LifecycleState.allCases {
      for event in LifecycleEvent.allCases {
        pairs += 1
        for facts in LifecycleFacts.all {
          do {
            if case .ignored(let why) = try Lifecycle.decide(state, event, facts) { #expect(!why.isEmpty) }
          } catch {
            #expect(error.state == state && error.event == event)
          }
        }
      }
    }
    #expect(pairs == LifecycleState.allCases.count * LifecycleEvent.allCases.count)
  }

  // R-LIFE-01
  @Test func theStatesAreThoseOfTheRequirement() {
    let states = Set(LifecycleState.allCases.map(\.operational))
    #expect(states == Set(LifecycleState.Operational.allCases))
    #expect(states.count == 6)
  }

  @Test func noRuleOfTheTableIsUnreachable() {
    for rule in Lifecycle.rules {
      let reaches = LifecycleFacts.all.contains { facts in
        let decided = try? Lifecycle.decide(rule.state, rule.event, facts)
        switch rule.outcome {
        case .move(let next, let effects): return decided == .move(next, effects)
        case .ignore(let why): return decided == .ignored(why)
        case .refuse: return decided == nil
        }
      }
      #expect(reaches, "\(rule)")
    }
  }

  // R-LIFE-06, R-FTS-06
  @Test func nothingIsDeliveredToWhatCannotRun() throws {
    for rule in Lifecycle.rules {
      guard case .move(_, let effects) = rule.outcome else { continue }
      var runs = rule.state.mayExecute
      for effect in effects {
        switch effect {
        case .start, .resumeExecution: runs = true
        case .stopExecution, .takeBack: runs = false
        case .deliver, .warnOfMemory: #expect(runs, "\(rule)")
        case .takeSnapshot, .saveState, .restoreState, .deleteState: break
        }
      }
    }
  }

  // R-LIFE-07, R-LIFE-08
  @Test func hibernationSavesAndTerminationDeletes() {
    for rule in Lifecycle.rules {
      guard case .move(let next, let effects) = rule.outcome else { continue }
      #expect((next == .hibernated) == effects.contains(.saveState))
      if rule.state == .hibernated, next.mayExecute { #expect(effects.first == .restoreState) }
      if next == .terminated { #expect(effects.contains(.deleteState) && effects.last == .takeBack) }
    }
  }

  // R-LIFE-16
  @Test func terminationIsNeverRefused() throws {
    for state in LifecycleState.allCases {
      for facts in LifecycleFacts.all { _ = try Lifecycle.decide(state, .terminate, facts) }
    }
  }

  @Test func errorsNameStateEventAndReason() {
    let error = #expect(throws: LifecycleError.self) { try Lifecycle.decide(.active, .suspend, []) }
    #expect(
      error?.description == "'suspend' is not allowed in state 'foreground (active)': it is in the foreground"
    )
  }
}
