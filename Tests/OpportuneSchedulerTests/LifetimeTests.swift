import COpportune
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// After a shutdown, once its threads have ended, a scheduler has released everything.
@Suite(.bounded) struct LifetimeTests {
  /// Waits until `object` is gone, which the scheduler's last thread decides. A minute means that it is kept
  /// for good.
  private func isFreed(_ object: () -> AnyObject?) async -> Bool {
    let end = opp_now_ns() + 60_000_000_000
    while object() != nil {
      if opp_now_ns() > end { return false }
      await Task.yield()
    }
    return true
  }

  private struct Remains {
    weak var engine: Engine?
    weak var app: AppCore?
    weak var monitor: Monitor?
    weak var strand: Strand?
  }

  /// Uses every kind of job once, then lets go of everything.
  private func useAndShutDown(forgetting: Bool) async throws -> Remains {
    let (scheduler, app) = try makeApp(named: "short", workers: 2)
    let done = Record<Int>()
    try app.submit { done.add(1) }
    #expect(await app.task { 2 }.value == 2)
    await Task(executorPreference: app.executor) { done.add(3) }.value
    let strand = try app.makeStrand(named: "short")
    try strand.submit { done.add(4) }
    try await app.clock.sleep(for: .microseconds(1))
    _ = await done.reaching(3)
    let remains = Remains(
      engine: scheduler.engine, app: app.core, monitor: scheduler.engine.monitor, strand: strand)
    if !forgetting { try await scheduler.shutdown() }
    return remains
  }

  // R-SYS-03
  @Test(arguments: [false, true]) func nothingIsLeftOfAScheduler(forgetting: Bool) async throws {
    let remains = try await useAndShutDown(forgetting: forgetting)
    #expect(await isFreed { remains.strand })
    #expect(await isFreed { remains.app })
    #expect(await isFreed { remains.engine })
    #expect(await isFreed { remains.monitor })
  }

  @Test func aThreadThatOutlivesManySchedulersKeepsOneAtMost() async throws {
    await onThread {
      var kept: [Int] = []
      for _ in 0..<8 {
        var config = opp_core_config()
        config.max_apps = 1
        var core: OpaquePointer?
        guard opp_core_create(&config, &core) == 0, let core else { continue }
        var error: Int32 = 0
        #expect(opp_thread_producer(core, 0, &error) != nil)
        kept.append(Int(opp_thread_registrations()))
        opp_core_destroy(core, nil, nil)
      }
      #expect(kept == Array(repeating: 1, count: 8))
    }
  }

  // R-CARD-07
  /// With three workers for each pool and the monitor, seven threads are wanted, and three are the least.
  @Test(arguments: 0...2) func aSchedulerThatGetsTooFewThreadsLeavesNone(given: Int) async throws {
    let (configuration, ended) = (try SchedulerConfiguration(workers: 2), Record<Bool>())
    weak var remains: Ration?
    do {
      let ration = Ration(given)
      remains = ration
      _ = try Engine(configuration, .silent) { name, stack, body, context in
        guard ration.take() else { return -EAGAIN }
        return CountedThread.start(name, stack, body, context) { ended.add(true) }
      }
      Issue.record("there was no thread for each pool")
    } catch {
      #expect(error.code == .threadsUnavailable)
      #expect(error.message.contains("gave \(given) of 7 threads, then error \(EAGAIN)"), "\(error)")
    }
    _ = await ended.reaching(given)
    #expect(await isFreed { remains })
  }

  // R-CARD-07 R-CPU-02 R-SYS-03
  @Test(arguments: 3...7) func aSchedulerWorksWithWhatThreadsItGets(given: Int) async throws {
    let ration = Ration(given)
    let engine = try Engine(SchedulerConfiguration(workers: 2), .silent) { name, stack, body, context in
      guard ration.take() else { return -EAGAIN }
      return CountedThread.start(name, stack, body, context) { ration.giveBack() }
    }
    for band in [Band.foreground, .background] {
      let app = try engine.makeApp(named: "app", band: band)
      let ran = Record<Int>()
      for number in 0..<200 { try app.submit { ran.add(number) } }
      #expect(await ran.reaching(200).count == 200)
    }
    await engine.end()
  }

  /// How many threads there may be at a time, as the kernel limits them: workers that are one too many end,
  /// and others are started in their place.
  private final class Ration: Sendable {
    private let threads: Atomic<Int>
    init(_ threads: Int) { self.threads = Atomic(threads) }
    var left: Int { threads.load(ordering: .relaxed) }
    func take() -> Bool {
      guard left > 0 else { return false }
      threads.subtract(1, ordering: .relaxed)
      return true
    }
    func giveBack() { threads.add(1, ordering: .relaxed) }
  }
}
