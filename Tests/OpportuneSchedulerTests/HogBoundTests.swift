import COpportune
import Foundation
import Synchronization
import Testing

@testable import OpportuneScheduler

/// How many are inside something, and the most that there were.
private final class Gauge: Sendable {
  private let now = Atomic<Int>(0)
  private let most = Atomic<Int>(0)

  func enter() {
    let count = now.add(1, ordering: .relaxed).newValue
    most.max(count, ordering: .relaxed)
  }

  func leave() { now.subtract(1, ordering: .relaxed) }

  var maximum: Int { most.load(ordering: .relaxed) }
}

/// ThreadSanitizer and AddressSanitizer cost time and memory: there a tenth is enough.
private let hogCount = dlsym(nil, "__tsan_init") == nil && dlsym(nil, "__asan_init") == nil ? 10_000 : 1_000

/// Where the hogs come from.
enum HogOrigin: CaseIterable {
  /// One thread outside: after the first hogs the scheduler knows what to think of its jobs.
  case thread
  /// Short jobs of the app itself: each hog is taken for fresh work until it has used up its quantum.
  case shortJobs
}

@Suite(.timeLimit(.minutes(5)), .serialized) struct HogBoundTests {
  // R-CPU-02 R-CPU-06
  @Test(arguments: HogOrigin.allCases) func manyOneShotHogsStayWithinTheBound(origin: HogOrigin) async throws {
    let width = 2
    let scheduler = try makeScheduler(workers: width, quantum: QuantumPolicy(quantum: .milliseconds(1)))
    let app = try scheduler.makeApp(named: "app")
    let limit = width * scheduler.configuration.demotedLimitPerCore
    let inside = Gauge()
    let ended = Atomic<Int>(0)
    let submitted = Record<Bool>()
    @Sendable func submitHogs(_ count: Int) {
      for _ in 0..<count {
        do {
          try app.submit {
            inside.enter()
            spinCPU(milliseconds: 2)
            inside.leave()
            ended.add(1, ordering: .relaxed)
          }
        } catch { submitted.add(false) }
      }
      submitted.add(true)
    }
    switch origin {
    case .thread:
      await onThread { submitHogs(hogCount) }
    case .shortJobs:
      for _ in 0..<hogCount / 50 { try app.submit(priority: .high) { submitHogs(50) } }
      _ = await submitted.reaching(hogCount / 50)
    }
    // The interactive part of the same app: each job waits for the one before. Hogs that nothing is known of yet are as
    // good as any other job of their priority.
    let priority: TaskPriority = origin == .thread ? .medium : .high
    var lanes = 0
    var passedBy = 0
    for _ in 0..<100 {
      let before = ended.load(ordering: .relaxed)
      passedBy += try await app.task(priority: priority) { @Sendable in ended.load(ordering: .relaxed) - before }.value
      let foreground = try #require(await scheduler.statistics().lanes.first { $0.lane == .foreground })
      lanes = max(lanes, foreground.demoted)
    }
    // Fresh work goes before the hogs that wait: few end between a submission and its start.
    #expect(passedBy < hogCount / 2)
    try await scheduler.shutdown(within: .seconds(240))
    #expect(ended.load(ordering: .relaxed) == hogCount && submitted.values.allSatisfy { $0 })
    #expect(app.statistics.demotions > 0)
    // Those known for hogs are bounded by the limit; jobs that turn out to be hogs, by as many again; and there may be
    // one that is not known yet in every permit and in the reserve.
    #expect(lanes <= 2 * limit)
    #expect(inside.maximum <= 2 * limit + width + 1)
  }

  // R-CPU-06 R-CPU-02
  @Test func aNewThreadDoesNotWaitBehindTheHogsOfADeadOne() async throws {
    let scheduler = try makeScheduler(workers: 1, quantum: QuantumPolicy(quantum: .milliseconds(1)))
    let app = try scheduler.makeApp(named: "app")
    let ended = Atomic<Int>(0)
    let submitted = Record<Bool>()
    await onThread {
      for _ in 0..<1000 {
        do {
          try app.submit {
            spinCPU(milliseconds: 3)
            ended.add(1, ordering: .relaxed)
          }
        } catch { submitted.add(false) }
      }
    }
    let seen = Record<Int>()
    for _ in 0..<5 {
      let before = seen.count
      await onThread {
        do { try app.submit { seen.add(ended.load(ordering: .relaxed)) } } catch { submitted.add(false) }
      }
      _ = await seen.reaching(before + 1)
    }
    #expect(seen.values.allSatisfy { $0 < 500 } && submitted.count == 0)
    try await scheduler.shutdown(within: .seconds(100))
  }
}
