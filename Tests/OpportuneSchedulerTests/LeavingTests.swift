import COpportune
import Dispatch
import TestSupport
import Testing

@testable import OpportuneScheduler

/// A job that a slice leaves behind is taken next by its own worker, or another worker is woken for it.
@Suite(.bounded, .timeLimit(.minutes(2))) struct LeavingTests {
  /// One of two who waited for a task is its worker's next; for the other somebody is woken, at once.
  // R-CPU-02
  @Test func allWhoWaitForATaskGoOnAtOnce() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let pool = try #require(scheduler.engine.pools.first { $0.pool == .foreground })
    let (begun, gate) = (Record<Int>(), DispatchSemaphore(value: 0))
    let awaited = app.task { gate.wait() }
    let waiters = (0..<2).map { number in
      app.task {
        begun.add(number)
        await awaited.value
      }
    }
    _ = await begun.reaching(2)
    // Both have been suspended, and their workers have counted that and sleep; only who is waited for has
    // one.
    try await eventually("their workers' rest") {
      app.statistics.jobs == 2 && opp_pool_sleeping(pool.raw) >= 2
    }
    let before = opp_pool_wakeups(pool.raw)
    gate.signal()
    for waiter in waiters { await waiter.value }
    // Of the pool's, since where this thread is held up between the two the monitor wakes somebody, who
    // counts with no app. Who counts may be behind.
    try await eventually("a wake-up") { opp_pool_wakeups(pool.raw) > before }
    try await scheduler.shutdown()
  }

  private actor Plain {
    func hold(_ begun: Record<Int>, _ gate: DispatchSemaphore) {
      begun.add(0)
      gate.wait()
    }

    func wait(for gate: DispatchSemaphore) -> Bool { gate.wait(timeout: .now() + 20) == .success }
  }

  /// The actor's slice goes on with a message that waits for who has left; the monitor finds that.
  // R-CPU-02
  @Test func whoLeavesAContendedActorGoesOnWithinAQuantum() async throws {
    let (scheduler, app) = try makeApp(named: "app", workers: 2)
    let actor = Plain()
    for _ in 0..<10 {
      let (begun, inTime) = (Record<Int>(), Record<Bool>())
      let (held, gone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      let task = app.task {
        await actor.hold(begun, held)
        gone.signal()
      }
      _ = await begun.reaching(1)
      // It queues its message before it returns, and needs no worker.
      Task(executorPreference: CallersThread()) { inTime.add(await actor.wait(for: gone)) }
      held.signal()
      #expect(await inTime.reaching(1) == [true])
      await task.value
    }
    try await scheduler.shutdown()
  }
}
