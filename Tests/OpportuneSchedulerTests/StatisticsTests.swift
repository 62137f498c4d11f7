import COpportune
import Foundation
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded, .timeLimit(.minutes(3))) struct StatisticsTests {
  /// Runs work of every kind that is counted, and returns the app's statistics and the scheduler's.
  private func statistics(isCollecting: Bool) async throws -> (AppStatistics, SchedulerStatistics) {
    let scheduler = try Scheduler(
      configuration: SchedulerConfiguration(workers: 1) { $0.collectsStatistics = isCollecting })
    let app = try scheduler.makeApp(named: "app")
    let ran = Record<Int>()
    for number in 0..<64 { try app.submit { ran.add(number) } }
    try app.submit {
      spinCPU(milliseconds: 40)
      ran.add(64)
    }
    #expect(await app.task { 1 }.value == 1)
    _ = await ran.reaching(65)
    let pools = await scheduler.statistics()
    app.suspend()
    try app.submit {}
    try await scheduler.shutdown()
    return (app.statistics, pools)
  }

  /// The end of the job before stands for the beginning of the next, which may have been queued after it.
  @Test func aJobThatWasQueuedAfterItsBeginningHasNotWaited() throws {
    let place = UnsafeMutableRawPointer.allocate(byteCount: 16, alignment: 16)
    defer { place.deallocate() }
    let base = BasePriority(index: 1)
    for queued: UInt64 in [5_000_000_000, 536_870_912_000, 536_870_913_000] {
      let entry = JobEntry(.object, place, base: base, queuedAt: queued)
      for (late, waited) in [(0, 0), (7_000, 7), (200_000_000_000, 200_000_000)] as [(UInt64, UInt64)] {
        let told = try #require(entry.waited(until: queued + late))
        // 0 stands for no time: such a stamp is a microsecond late.
        #expect(told == waited || told + 1 == waited)
      }
      for early: UInt64 in [1_000, 40_000, 3_000_000_000] {
        #expect(entry.waited(until: queued - early) == 0)
      }
    }
    #expect(JobEntry(.object, place, base: base, queuedAt: nil).waited(until: 5_000_000_000) == nil)
  }

  @Test func everythingIsCounted() async throws {
    let (app, scheduler) = try await statistics(isCollecting: true)
    #expect(app.isCollected && scheduler.isCollected)
    #expect(app.jobs >= 66 && app.submitted == 66 && app.cancelled == 1)
    #expect(app.cpuTime >= .milliseconds(35))
    #expect(app.demotions > 0)
    #expect(app.waiting.count > 0)
    #expect(scheduler.apps.map(\.name) == ["app"])
  }

  @Test func oneWaitInEightIsMeasuredWhateverWaits() async throws {
    let scheduler = try makeScheduler(workers: 1)
    for number in 0..<8 {
      let app = try scheduler.makeApp(named: "yields \(number)")
      await app.task { for _ in 0..<2000 { await Task.yield() } }.value
      _ = await scheduler.statistics()
    }
    let app = try scheduler.makeApp(named: "strand")
    let strand = try app.makeStrand(named: "strand")
    let ran = Record<Int>()
    for number in 0..<200 {
      try strand.submit { ran.add(number) }
      _ = await ran.reaching(number + 1)
    }
    try await scheduler.shutdown()
    for app in await scheduler.statistics().apps where app.name != "strand" {
      // By chance, so about that.
      #expect(app.waiting.count > app.jobs / 16 && app.waiting.count < app.jobs / 4, "\(app)")
    }
    #expect(app.statistics.waiting.count > 0)
  }

  /// Of an app that moves, each band's share.
  @Test func bandsAreCountedApart() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 1)
    func run(_ count: Int, milliseconds: UInt64, in app: App) async throws {
      let ran = Record<Int>()
      for number in 0..<count {
        try app.submit {
          spinCPU(milliseconds: milliseconds)
          ran.add(number)
        }
      }
      _ = await ran.reaching(count)
    }
    try await run(1, milliseconds: 40, in: app)
    try app.setBand(.background)
    try await run(100, milliseconds: 0, in: app)
    // A worker that has not slept yet needs no waking.
    let other = try scheduler.makeApp(named: "other", band: .background)
    while other.statistics.wakeups == 0 { try await run(1, milliseconds: 0, in: other) }
    app.suspend()
    try app.submit {}
    try await scheduler.shutdown()
    let statistics = app.statistics
    let (front, back) = (statistics.counts(in: .foreground), statistics.counts(in: .background))
    #expect(front.jobs == 1 && back.jobs == 100 && statistics.jobs == 101)
    #expect(front.submitted == 1 && back.submitted == 101 && statistics.submitted == 102)
    #expect(front.cancelled == 0 && back.cancelled == 1)
    #expect(front.demotions > 0 && back.demotions == 0)
    #expect(front.cpuTime >= .milliseconds(35) && back.cpuTime < front.cpuTime && back.cpuTime > .zero)
    #expect(statistics.cpuTime == front.cpuTime + back.cpuTime)
    #expect(back.waiting.count > 0 && statistics.waiting.count == front.waiting.count + back.waiting.count)
    #expect(statistics.wakeups == front.wakeups + back.wakeups)
    #expect(other.statistics.counts(in: .background).wakeups == other.statistics.wakeups)
    let pools = await scheduler.statistics().pools
    #expect(pools.reduce(0) { $0 + $1.wakeups } >= statistics.wakeups + other.statistics.wakeups)
    let none = statistics.counts(in: .realTime)
    #expect(none.jobs == 0 && none.cpuTime == .zero && none.wakeups == 0)
  }

  @Test func nothingIsCountedWhereItIsOff() async throws {
    let (app, scheduler) = try await statistics(isCollecting: false)
    #expect(!app.isCollected && !scheduler.isCollected)
    #expect(app.name == "app" && app.band == .foreground)
    #expect(app.jobs == 0 && app.submitted == 0 && app.cancelled == 0 && app.stolen == 0)
    #expect(app.cpuTime == .zero && app.demotions == 0 && app.restored == 0)
    #expect(app.waiting.count == 0 && app.waiting.quantile(0.5) == nil)
    // What the pools look like is told all the same.
    #expect(scheduler.apps.map(\.name) == ["app"])
    #expect(scheduler.pools.map(\.pool) == [.foreground, .background])
    #expect(scheduler.queueMemory > 0)
  }
}
