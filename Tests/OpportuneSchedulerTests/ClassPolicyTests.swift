import TestSupport
import Testing

@testable import OpportuneScheduler

private let ms: UInt64 = 1_000_000

/// Who may be in the real-time foreground, in virtual time.
@Suite(.bounded) struct ClassPolicyTests {
  private static let start: UInt64 = 1_000 * ms

  private func policy(share: Double = 0.5, _ access: RealTimeForegroundStatistics.Access = .roundRobin)
    -> ClassPolicy
  {
    var policy = ClassPolicy(quantum: RealTimeQuantum(quantum: ms), share: share, cpus: 2)
    policy.access = access
    return policy
  }

  // R-CPU-01
  @Test func jobsAreAdmittedWithAccessAndWithinTheShare() {
    var (ours, kit, none) = (policy(), policy(.realtimeKit), policy(.refused))
    func admitted(_ policy: inout ClassPolicy) -> [Bool] {
      [policy.admitsJobs(at: Self.start), policy.admitsServers(at: Self.start)]
    }
    let answers = (admitted(&ours), admitted(&kit), admitted(&none))
    #expect(answers.0 == [true, true] && answers.1 == [false, true] && answers.2 == [false, false])
    ours.add(50 * ms, on: 1, at: Self.start)
    let spent = admitted(&ours)
    #expect(spent == [false, false])
    let next = ours.nextLook(wasOpen: false, isOpen: false, at: Self.start)
    #expect(next < .max)
    let isBack = ours.admitsJobs(at: Self.start + next)
    #expect(isBack, "it is looked at again once some is left")
    ours.isGivenUp = true
    let isOut = !ours.admitsJobs(at: .max) && !ours.admitsServers(at: .max)
    #expect(isOut)
    #expect(ours.nextLook(wasOpen: false, isOpen: false, at: Self.start) == .max)
  }

  // R-CPU-01
  /// Whoever has read that the class was open may begin after it was closed.
  @Test func theClassIsLookedAtOnceMoreAfterItWasClosed() {
    let policy = policy()
    #expect(policy.nextLook(wasOpen: true, isOpen: false, at: Self.start) == ms)
    #expect(policy.nextLook(wasOpen: true, isOpen: true, at: Self.start) == .max)
  }

  // R-CPU-01
  @Test func aJobLeavesAfterItsQuantumOrWhenItHasNotRunForLong() {
    let policy = policy()
    var look: ClassPolicy.JobLook?
    func verdict(_ job: UInt64 = 1, cpu: UInt64, after time: UInt64, isOpen: Bool = true)
      -> RealTimeQuantum.Verdict
    {
      let job = ClassPolicy.Job(sequence: job, start: Self.start, cpuBefore: 7, cpu: 7 + cpu)
      return policy.judge(job, &look, isOpen: isOpen, at: Self.start + time)
    }
    #expect(verdict(cpu: 300_000, after: ms) == .stays(700_000))
    #expect(verdict(cpu: ms, after: 2 * ms) == .leaves)
    #expect(verdict(cpu: 5 * ms, after: 300_000) == .stays(700_000), "no longer than it is there")
    // It has used none since a look.
    #expect(verdict(cpu: 300_000, after: 10 * ms) == .stays(700_000))
    #expect(verdict(cpu: 300_000, after: 14 * ms - 1) == .stays(700_000))
    #expect(verdict(cpu: 300_000, after: 14 * ms) == .leaves)
    _ = verdict(cpu: 300_000, after: 20 * ms)
    #expect(verdict(cpu: 300_001, after: 24 * ms) == .stays(699_999), "it has run")
    #expect(verdict(3, cpu: 300_001, after: 28 * ms) == .stays(699_999), "another job")
    #expect(verdict(3, cpu: 300_001, after: 28 * ms, isOpen: false) == .leaves, "the share is used up")
  }

  // R-CPU-01
  @Test func aServerThatRunsAllTheTimeLeavesAndComesBack() {
    var policy = policy()
    var server = ClassPolicy.ServerLook(cpu: 0, at: Self.start)
    #expect(policy.move(server, isOpen: true) == .enters && policy.nextLook(at: server) == .max)
    server.isIn = true
    #expect(policy.move(server, isOpen: true) == .none && policy.move(server, isOpen: false) == .leaves)
    policy.look(&server, cpu: 2 * ms, at: Self.start + 2 * ms)
    #expect(policy.move(server, isOpen: true) == .leaves && policy.nextLook(at: server) == 4 * ms)
    server.isIn = false
    policy.look(&server, cpu: 2 * ms, at: Self.start + 6 * ms)
    #expect(policy.move(server, isOpen: true) == .enters, "it has slept")
    policy.access = .realtimeKit
    #expect(policy.move(server, isOpen: true) == .asks)
    // What it uses inside is of the share.
    server.isIn = true
    policy.look(&server, cpu: 60 * ms, at: Self.start + 100 * ms)
    let mayServe = policy.admitsServers(at: Self.start + 100 * ms)
    #expect(!mayServe)
  }
}
