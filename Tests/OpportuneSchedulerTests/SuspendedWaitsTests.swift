import TestSupport
import Testing

@testable import OpportuneScheduler

/// Of which waits to warn, in virtual time; see SuspendedWaitTests for the warnings themselves.
@Suite(.bounded) struct SuspendedWaitsTests {
  /// App 1 waits for app 2, which is suspended.
  private final class World {
    var waits = SuspendedWaits()
    var apps: [UInt64: SuspendedWaits.App] = [
      1: .init(
        isSuspended: false, generation: 1, isOfForeground: true, isQuiet: false, waiter: nil, endedWaits: 0),
      2: .init(
        isSuspended: true, generation: 1, isOfForeground: false, isQuiet: true, waiter: 1, endedWaits: 0),
    ]

    func note(lookAt time: UInt64) { waits.note([(1, 2)], lookAt: time) { apps[$0] } }
    func due(at now: UInt64) -> Int { waits.takeDue(at: now, delay: 10) { apps[$0] }.count }
  }

  // R-CPU-01
  @Test func aWaitIsToldOfOnceAfterItsDelay() {
    let world = World()
    #expect(world.waits.next == .max)
    world.note(lookAt: 10)
    #expect(world.waits.next == 10 && world.due(at: 9) == 0 && world.due(at: 10) == 1)
    world.note(lookAt: 20)
    #expect(world.waits.next == .max && world.due(at: 20) == 0, "it is known")
    world.apps[2]?.generation += 1
    world.note(lookAt: 30)
    #expect(world.due(at: 30) == 1, "another suspension")
  }

  // R-CPU-01
  @Test func whatMayEndByItselfIsLookedAtAgain() {
    let world = World()
    world.apps[2]?.isQuiet = false
    world.note(lookAt: 10)
    #expect(world.due(at: 10) == 0 && world.waits.next == 20, "a slice may bring it")
    world.apps[2]?.isQuiet = true
    world.apps[2]?.endedWaits = 1
    #expect(world.due(at: 20) == 0 && world.waits.next == 30, "this one has only begun")
    #expect(world.due(at: 30) == 1)
  }

  // R-CPU-01
  @Test func whatIsOverIsForgotten() {
    let changes: [(World) -> Void] = [
      { $0.apps[2]?.isSuspended = false }, { $0.apps[2]?.generation += 1 }, { $0.apps[2] = nil },
      { $0.apps[2]?.waiter = nil }, { $0.apps[1]?.isOfForeground = false },
      { $0.apps[1]?.isSuspended = true }, { $0.apps[1] = nil },
    ]
    for change in changes {
      let world = World()
      world.note(lookAt: 10)
      change(world)
      #expect(world.due(at: 10) == 0 && world.waits.next == .max)
    }
    let resumed = World()
    resumed.apps[2]?.isSuspended = false
    resumed.note(lookAt: 10)
    #expect(resumed.waits.next == .max, "it was not suspended")
  }
}
