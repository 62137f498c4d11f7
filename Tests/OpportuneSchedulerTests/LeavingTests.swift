import COpportune
import Dispatch
import Testing

@testable import OpportuneScheduler

/// What a slice leaves behind is taken by its worker next, or somebody else is woken for it.
@Suite(.endsWithin(minutes: 2)) struct LeavingTests {
  /// One of two who waited for a task is its worker's next; for the other somebody is woken, at once.
  // R-CPU-02
  @Test func allWhoWaitForATaskGoOnAtOnce() async throws {
    let scheduler = try makeScheduler(workers: 2)
    let app = try scheduler.makeApp(named: "app")
    let lane = try #require(scheduler.engine.lanes.first { $0.lane == .foreground })
    let (begun, gate) = (Record<Int>(), DispatchSemaphore(value: 0))
    let awaited = app.task { gate.wait() }
    let waiters = (0..<2).map { number in
      app.task {
        begun.add(number)
        try await awaited.value
      }
    }
    _ = await begun.reaching(2)
    // Both have been suspended; only who is waited for has a worker.
    while opp_lane_sleeping(lane.raw) < 2 { await Task.yield() }
    let before = app.statistics.wakeups
    gate.signal()
    for waiter in waiters { try await waiter.value }
    // Who is woken at the monitor's look counts with no app. Who counts may be behind.
    let end = opp_now_ns() + 5_000_000_000
    while app.statistics.wakeups == before, opp_now_ns() < end { await Task.yield() }
    #expect(app.statistics.wakeups > before)
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
    let scheduler = try makeScheduler(workers: 2)
    let app = try scheduler.makeApp(named: "app")
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
      try await task.value
    }
    try await scheduler.shutdown()
  }
}
