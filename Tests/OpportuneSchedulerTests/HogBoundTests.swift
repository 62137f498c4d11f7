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

@Suite(.timeLimit(.minutes(5)), .serialized) struct HogBoundTests {
  // R-CPU-02 R-CPU-06
  @Test func manyOneShotHogsStayWithinTheBound() async throws {
    let width = 2
    let scheduler = try makeScheduler(workers: width, quantum: QuantumPolicy(quantum: .milliseconds(1)))
    let app = try scheduler.makeApp(named: "app")
    let limit = width * scheduler.configuration.demotedLimitPerCore
    let inside = Gauge()
    let ended = Atomic<Int>(0)
    let refused = Record<Int>()
    await onThread {
      for number in 0..<hogCount {
        do {
          try app.submit {
            inside.enter()
            spinCPU(milliseconds: 2)
            inside.leave()
            ended.add(1, ordering: .relaxed)
          }
        } catch { refused.add(number) }
      }
    }
    // The interactive part of the same app: each job waits for the one before.
    var lanes = 0
    for round in 0..<100 {
      #expect(try await app.task { round }.value == round)
      let foreground = try #require(await scheduler.statistics().lanes.first { $0.lane == .foreground })
      lanes = max(lanes, foreground.demoted)
    }
    // Most hogs still wait by then: fresh work passed them.
    #expect(ended.load(ordering: .relaxed) < hogCount / 2)
    try await scheduler.shutdown(within: .seconds(240))
    #expect(ended.load(ordering: .relaxed) == hogCount && refused.count == 0)
    #expect(app.statistics.demotions > 0)
    // Those known for hogs are bounded by the limit; jobs that turn out to be hogs, by as many again; and there may be
    // one that is not known yet in every permit and in the reserve.
    #expect(lanes <= 2 * limit)
    #expect(inside.maximum <= 2 * limit + width + 1)
  }
}
