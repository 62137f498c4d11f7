import TestSupport
import Testing

@testable import OpportuneScheduler

private let root = KernelPrivileges(canRaise: true, canUseRR: true, canSetSlice: true)
private let user = KernelPrivileges(canRaise: false, canUseRR: false, canSetSlice: true)
private let nothing = KernelPrivileges(canRaise: false, canUseRR: false, canSetSlice: false)

private func priority(
  _ worker: WorkerPool, _ level: Level, depth: Int = 0, _ privileges: KernelPrivileges,
  background: BackgroundClass = .idle, overlap: OverlapClass = .background
) -> KernelPriority {
  KernelPriority(
    worker: worker, level: level, depth: depth, bands: .default, backgroundClass: background,
    overlapClass: overlap, privileges: privileges)
}

@Suite(.bounded) struct KernelClassTests {
  // R-CPU-01
  @Test(arguments: [root, user])
  func undemotedForegroundIsNormalWithAShortSlice(privileges: KernelPrivileges) {
    for level in [Level(50), 42, 34] {
      let chosen = priority(.foreground, level, privileges)
      #expect(chosen.policy == .normal && chosen.nice == 0 && !chosen.retires)
      #expect(chosen.sliceNanoseconds == 100_000)
    }
  }

  // R-CPU-06
  @Test func demotionRaisesNiceAtOnceWithPrivilege() {
    let nices = (1...10).map { priority(.foreground, 40, depth: $0, root).nice }
    #expect(nices == [5, 7, 9, 11, 13, 15, 17, 19, 19, 19])
    for depth in [1, 10, .max] {
      let chosen = priority(.foreground, 40, depth: depth, root)
      #expect(chosen.policy == .normal && chosen.sliceNanoseconds == 20_000_000)
      #expect(!chosen.retires, "it can be undone")
    }
  }

  // R-CPU-06
  @Test func demotionLowersTheSliceFirstWithoutPrivilege() {
    let first = priority(.foreground, 41, depth: 1, user)
    #expect(first.nice == 0 && first.sliceNanoseconds == 20_000_000 && !first.retires)
    for depth in 2...21 {
      let later = priority(.foreground, 30, depth: depth, user)
      #expect(later.nice == min(19, 3 + 2 * depth) && later.retires)
    }
  }

  @Test func sliceIsLeftAloneWhereItCannotBeSet() {
    for worker in WorkerPool.allCases {
      for level in 0...63 as ClosedRange<UInt8> {
        for background in BackgroundClass.allCases {
          let chosen = priority(worker, Level(known: level), depth: 3, nothing, background: background)
          #expect(chosen.sliceNanoseconds == 0)
        }
      }
    }
    #expect(priority(.foreground, 41, depth: 1, nothing).retires == false)
    #expect(priority(.foreground, 40, depth: 2, nothing).retires)
  }

  // R-CPU-01
  @Test func backgroundClassIsASetting() {
    for privileges in [root, user] {
      let idle = priority(.background, 12, privileges)
      #expect(idle.policy == .idle && idle.nice == 0 && !idle.retires)
      let nice = priority(.background, 12, privileges, background: .nice19)
      #expect(nice.policy == .normal && nice.nice == 19 && nice.sliceNanoseconds == 0 && !nice.retires)
      let long = priority(.background, 12, privileges, background: .nice19LongSlice)
      #expect(long.policy == .normal && long.nice == 19 && long.sliceNanoseconds == 100_000_000)
    }
  }

  // R-CPU-05
  @Test func demotedForegroundWeighsMoreInTheOverlapThanBackground() {
    for (privileges, retires) in [(root, false), (user, true)] {
      let demoted = priority(.foreground, 20, depth: 20, privileges, overlap: .nice19)
      #expect(demoted.policy == .normal && demoted.nice == 19 && demoted.sliceNanoseconds == 20_000_000)
      #expect(demoted.retires == retires)
    }
    #expect(
      priority(.background, 20, depth: 20, root, overlap: .nice19).nice == 19, "whichever worker runs it")
    #expect(
      priority(.background, 20, depth: 20, user, overlap: .nice19).policy == .idle, "it cannot be raised")
    for depth in 0...8 {
      let background = priority(
        .background, Level(known: UInt8(12 - depth)), depth: depth, root, overlap: .nice19)
      #expect(background.policy == .idle, "demoted background is background")
    }
    #expect(priority(.background, 20, root, overlap: .nice19).policy == .idle)
  }

  // R-CPU-03, R-CPU-05
  @Test func overlapIsScheduledAsBackground() {
    #expect(priority(.foreground, 20, depth: 22, root).policy == .idle)
    #expect(priority(.foreground, 20, depth: 22, root).retires == false)
    #expect(priority(.foreground, 20, depth: 22, user).policy == .idle)
    #expect(priority(.foreground, 20, depth: 22, user).retires, "SCHED_IDLE is one-way")
    #expect(priority(.background, 20, depth: 22, user).retires == false, "it is where it belongs")
    #expect(priority(.foreground, 21, depth: 21, root).policy == .normal)
  }

  // R-CPU-10
  @Test func backgroundWorkerIsRaisedWhereAllowed() {
    #expect(priority(.background, 42, root).policy == .normal)
    #expect(priority(.background, 42, root).nice == 0)
    let kept = priority(.background, 42, user)
    #expect(kept.policy == .idle && !kept.retires)
  }

  @Test func realTimeFollowsTheLevel() {
    #expect(priority(.realTime, 51, root).realTimePriority == 1)
    #expect(priority(.realTime, 63, root).realTimePriority == 13)
    #expect(priority(.realTime, 63, root).policy == .roundRobin)
    let raised = KernelPrivileges(canRaise: true, canUseRR: false, canSetSlice: true)
    #expect(priority(.realTime, 63, raised).policy == .normal)
    #expect(priority(.realTime, 63, raised).nice == -10)
    #expect(priority(.realTime, 55, depth: 8, raised).nice == -2)
    #expect(priority(.realTime, 51, depth: .max, raised).nice == -1, "still before the foreground")
    #expect(priority(.foreground, 63, root).policy == .normal, "only that pool's workers are real-time")
    #expect(priority(.foreground, 63, root).nice == 0)
    let plain = priority(.realTime, 63, user)
    #expect(plain.policy == .normal && plain.nice == 0 && plain.sliceNanoseconds == 100_000 && !plain.retires)
  }

  // R-CPU-01
  @Test func theMonitorStandsAboveEveryWorker() {
    let all = Set(WorkerPool.allCases)
    for level in 0...63 as ClosedRange<UInt8> {
      for worker in WorkerPool.allCases {
        let chosen = priority(worker, Level(known: level), root)
        #expect(KernelPriority.monitor(all, root).realTimePriority > chosen.realTimePriority)
      }
    }
    #expect(KernelPriority.monitor(all, root).realTimePriority <= 99, "the kernel's highest")
    for privileges in [user, nothing] {
      #expect(KernelPriority.monitor(all, privileges) == priority(.foreground, 42, privileges))
    }
    let without = KernelPriority.monitor([.foreground, .background], root)
    #expect(without == priority(.foreground, 42, root), "there is nothing to stand above")
  }

  // R-CPU-01
  @Test func theProcessesNiceValueIsTheBase() {
    var lowered = root
    lowered.baseNice = 10
    #expect((0...4).map { priority(.foreground, 40, depth: $0, lowered).nice } == [10, 15, 17, 19, 19])
    #expect(priority(.background, 12, lowered).policy == .idle)
    lowered.canUseRR = false
    #expect(
      priority(.realTime, 63, lowered).nice == 0 && priority(.realTime, 63, depth: 9, lowered).nice == 9)
    var raised = lowered
    raised.baseNice = -15
    #expect(priority(.foreground, 40, raised).nice == -15 && priority(.realTime, 63, raised).nice == -20)
    var lowest = user
    lowest.baseNice = 19
    for depth in [0, 1, 2, 20] {
      let chosen = priority(.foreground, 40, depth: depth, lowest)
      #expect(chosen.nice == 19 && !chosen.retires, "it is as low as it was")
      #expect(chosen.sliceNanoseconds == (depth == 0 ? 100_000 : 20_000_000))
    }
    #expect(KernelPrivileges(canRaise: true, canUseRR: true, canSetSlice: true, baseNice: 30).baseNice == 19)
  }

  // R-CPU-01
  @Test func everyChoiceIsOneTheKernelTakes() {
    let levels = 0...63 as ClosedRange<UInt8>
    let bases = [root, user, nothing].flatMap { privileges in
      [-20, 0, 19].map { base in
        var privileges = privileges
        privileges.baseNice = base
        return privileges
      }
    }
    for privileges in bases {
      for worker in WorkerPool.allCases {
        for level in levels {
          for depth in [-1, 0, 1, 2, 8, 63] {
            let chosen = priority(worker, Level(known: level), depth: depth, privileges)
            #expect((-20...19).contains(chosen.nice))
            #expect(chosen.policy == .normal || (chosen.nice == 0 && chosen.sliceNanoseconds == 0))
            #expect((1...99).contains(chosen.realTimePriority) == (chosen.policy == .roundRobin))
            #expect(privileges.canUseRR || chosen.policy != .roundRobin)
            #expect(privileges.canRaise || chosen.policy != .normal || chosen.nice >= privileges.baseNice)
            #expect(!privileges.canRaise || !chosen.retires)
          }
        }
      }
    }
  }

  // R-CPU-05
  @Test(arguments: [false, true]) func whatYieldsKeepsItsWeightAndGetsALongSlice(canSetSlice: Bool) {
    let privileges = KernelPrivileges(
      canRaise: false, canUseRR: false, canSetSlice: canSetSlice, baseNice: 3)
    let long = KernelPriority.longForeground(privileges)
    #expect(long.policy == .normal && long.nice == 3 && !long.retires)
    #expect(long.sliceNanoseconds == (canSetSlice ? KernelPriority.demotedSliceNanoseconds : 0))
  }
}
