import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneScheduler

private typealias Slice = InversionPolicy.Slice
private typealias Party = InversionPolicy.Party
private typealias Wait = InversionPolicy.Wait
private typealias Action = InversionPolicy.Action

private func priority(_ worker: WorkerPool, _ level: Level, depth: Int = 0) -> KernelPriority {
  KernelPriority(
    worker: worker, level: level, depth: depth, bands: .default, backgroundClass: .idle,
    overlapClass: .nice19, privileges: KernelPrivileges(canRaise: true, canUseRR: true, canSetSlice: true))
}

private let fresh = priority(.foreground, 50)
private let demoted = priority(.foreground, 40, depth: 1)
private let background = priority(.background, 1)

private func slice(_ thread: Int32, job: UInt64 = 1) -> Slice { Slice(thread: thread, job: job) }

private func party(_ thread: Int32, _ priority: KernelPriority, job: UInt64 = 1) -> Party {
  Party(slice: slice(thread, job: job), priority: priority)
}

/// Times are in the test's own unit; 100 is the limit.
@Suite(.bounded) struct InversionPolicyTests {
  private func wait(_ waiter: Party, for holder: Party) -> Wait {
    Wait(waiter: waiter, holder: holder, isForeground: waiter.priority != background)
  }

  // R-CPU-01
  @Test func aHolderBelowIsHelpedUntilItLetsGo() {
    var policy = InversionPolicy(limit: 100)
    let one = wait(party(1, fresh), for: party(2, background))
    #expect(policy.look([one], now: 0) == [.help(slice(2), as: fresh)])
    #expect(policy.isHelping)
    #expect(policy.look([one], now: 10) == [])
    #expect(policy.look([], now: 20) == [.leave(slice(2))])
    #expect(!policy.isHelping)
    #expect(policy.look([], now: 30) == [])
  }

  // R-CPU-01
  @Test func whoStandsNoLowerIsLeftAlone() {
    var policy = InversionPolicy(limit: 100)
    #expect(policy.look([wait(party(1, fresh), for: party(2, fresh))], now: 0) == [])
    #expect(policy.look([wait(party(1, demoted), for: party(2, fresh))], now: 1) == [])
    // Nor does the background help its own, or what waits for nobody above it.
    #expect(policy.look([wait(party(1, background), for: party(2, background))], now: 2) == [])
    #expect(!policy.isHelping)
  }

  // R-CPU-01
  @Test func theHighestThatWaitsCounts() {
    var policy = InversionPolicy(limit: 100)
    let (low, high) = (
      wait(party(1, demoted), for: party(3, background)), wait(party(2, fresh), for: party(3, background))
    )
    #expect(policy.look([low], now: 0) == [.help(slice(3), as: demoted)])
    #expect(policy.look([low, high], now: 1) == [.help(slice(3), as: fresh)])
    // Who came last has gone: the help that is given stays for the one that is there.
    #expect(policy.look([low], now: 2) == [])
    #expect(policy.look([high, low], now: 3) == [])
    #expect(policy.look([], now: 4) == [.leave(slice(3))])
  }

  // R-CPU-01
  /// 1 waits for 2, that for 3, and so on to 5: all are helped, for whoever is first to run keeps 1 waiting.
  @Test func aChainIsHelpedToItsEnd() {
    var policy = InversionPolicy(limit: 100)
    let waits = (1...4).map { thread in
      wait(party(Int32(thread), thread == 1 ? fresh : background), for: party(Int32(thread + 1), background))
    }
    #expect(policy.look(waits, now: 0) == (2...5).map { .help(slice($0), as: fresh) })
    // 5 lets go, and 4 has the lock.
    #expect(policy.look(waits.dropLast(), now: 1) == [.leave(slice(5))])
    #expect(policy.look([], now: 2) == (2...4).map { .leave(slice($0)) })
  }

  // R-CPU-01
  @Test func aCircleIsWalkedOnceAndGivenUp() {
    var policy = InversionPolicy(limit: 100)
    let circle = [
      wait(party(1, fresh), for: party(2, background)), wait(party(2, background), for: party(3, background)),
      wait(party(3, background), for: party(1, fresh)),
    ]
    #expect(policy.look(circle, now: 0) == [.help(slice(2), as: fresh), .help(slice(3), as: fresh)])
    #expect(policy.look(circle, now: 100) == [.leave(slice(2)), .leave(slice(3))])
    for now in 101...300 { #expect(policy.look(circle, now: UInt64(now)) == []) }
    #expect(!policy.isHelping)
  }

  // R-CPU-01
  @Test func noHolderIsHelpedForLongerThanTheLimit() {
    var policy = InversionPolicy(limit: 100)
    let one = wait(party(1, fresh), for: party(2, background))
    #expect(policy.look([one], now: 0) == [.help(slice(2), as: fresh)])
    #expect(policy.look([one], now: 99) == [])
    #expect(policy.look([one], now: 100) == [.leave(slice(2))])
    #expect(policy.look([one], now: 1000) == [])
    // Its next job is another matter; so is this one once nobody has waited for it.
    let next = wait(party(1, fresh), for: party(2, background, job: 3))
    #expect(policy.look([next], now: 1001) == [.help(slice(2, job: 3), as: fresh)])
    #expect(policy.look([one], now: 1002) == [.leave(slice(2, job: 3)), .help(slice(2), as: fresh)])
  }

  // R-CPU-01
  /// Whatever is seen, each help is taken back once, and nobody is helped twice at a time.
  @Test(arguments: [1, 2, 3] as [UInt64]) func helpAndLeaveAlternate(seed: UInt64) {
    var policy = InversionPolicy(limit: 100)
    var random = SplitMix64(seed: seed)
    let priorities = [fresh, demoted, background]
    var helped: [Slice: KernelPriority] = [:]
    for now in 0..<2000 as Range<UInt64> {
      let waits = (0..<Int.random(in: 0...4, using: &random)).map { _ in
        let (a, b) = (Int32.random(in: 1...5, using: &random), Int32.random(in: 1...5, using: &random))
        return wait(party(a, priorities[Int(a) % 3]), for: party(b, priorities[Int(b) % 3]))
      }
      for action in policy.look(waits, now: now) {
        switch action {
        case .help(let slice, let priority):
          if let before = helped[slice] { #expect(priority.outranks(before), "seed \(seed)") }
          helped[slice] = priority
        case .leave(let slice): #expect(helped.removeValue(forKey: slice) != nil, "seed \(seed)")
        }
      }
    }
    for action in policy.look([], now: 3000) {
      guard case .leave(let slice) = action else {
        Issue.record("\(action)")
        continue
      }
      #expect(helped.removeValue(forKey: slice) != nil)
    }
    #expect(helped.isEmpty)
  }

  // R-CPU-01
  /// A holder gets what its waiter has, but never the real-time class; without the right to raise a thread it
  /// gets only what is no higher.
  @Test func whatAHolderIsGiven() {
    func given(_ own: KernelPriority, _ waiter: KernelPriority, canRaise: Bool) -> KernelPriority? {
      InversionPolicy.priority(for: own, as: waiter, foreground: fresh, canRaise: canRaise)
    }
    #expect(given(background, demoted, canRaise: true) == demoted)
    #expect(given(background, priority(.realTime, 60), canRaise: true) == fresh)
    #expect(given(background, fresh, canRaise: false) == nil, "of another policy of the kernel")
    #expect(given(demoted, fresh, canRaise: false) == nil && given(fresh, fresh, canRaise: false) == fresh)
  }

  // R-CPU-01
  @Test func prioritiesAreOrderedAsTheKernelOrdersThem() {
    let order = [
      priority(.realTime, 63), priority(.realTime, 60), fresh, demoted,
      priority(.foreground, 40, depth: 3), background,
    ]
    for (index, higher) in order.enumerated() {
      #expect(!higher.outranks(higher))
      for lower in order[(index + 1)...] { #expect(higher.outranks(lower) && !lower.outranks(higher)) }
    }
  }
}
