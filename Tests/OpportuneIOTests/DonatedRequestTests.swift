import COpportune
import Foundation
import Synchronization
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO
@testable import OpportuneScheduler

/// The requests of background work that the foreground waits for. Time stands still for the broker, and the
/// background has used up what it may have: what is not raised stays queued for ever.
@Suite(.bounded, .timeLimit(.minutes(2))) struct DonatedRequestTests {
  private final class Setup: Sendable {
    let scheduler: Scheduler
    let front: App
    let back: App
    let broker: IOBroker
    let io: AppIO

    init(_ backend: IOConfiguration.Backend, followsDonations: Bool = true) async throws {
      scheduler = try Scheduler()
      front = try scheduler.makeApp(named: "front", band: .foreground)
      back = try scheduler.makeApp(named: "back", band: .background)
      broker = try makeBroker(backend) {
        $0.clock = { 1 }
        $0.storage.operations = .init(perSecond: 1, burst: 1)
        $0.followsDonations = followsDonations
      }
      io = try broker.makeIO(for: back)
      try await io.nop()  // the one that may go
    }

    func waitForQueued(_ count: Int) async throws {
      try await eventually("\(count) are queued") {
        try await broker.statistics().storage.backgroundQueued == count
      }
    }

    func end() async throws {
      await broker.shutdown()
      try await scheduler.shutdown()
    }
  }

  /// Messages of the strand of a background app.
  private actor Middle {
    private let strand: Strand
    init(_ strand: Strand) { self.strand = strand }
    nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }
    func use(_ lock: OpportuneLock<Int>) async throws -> Int { try await lock.withLock { $0 } }
    func beThere() {}
  }

  private static func untilDonated(_ io: AppIO) async {
    while io.standing(on: .storage)?.donatedBand == nil { await Task.yield() }
  }

  // R-DISK-01 R-CPU-01
  @Test(arguments: backends)
  func aQueuedRequestMovesUpWhenItsTaskIsWaitedFor(backend: IOConfiguration.Backend) async throws {
    let setup = try await Setup(backend)
    let io = setup.io
    let left = setup.back.task { try await io.nop() }
    try await setup.waitForQueued(1)
    let task = setup.back.task { try await io.nop() }
    try await setup.waitForQueued(2)
    try await setup.front.task { try await task.value }.value
    // The one that nobody waits for has not moved.
    #expect(try await setup.broker.statistics().storage.backgroundQueued == 1)
    try await setup.end()
    _ = await left.result
  }

  // R-DISK-01 R-CPU-01
  /// Somebody waits for a task of the foreground, whose request is queued as its app leaves the foreground.
  @Test(arguments: backends)
  func whatWasAskedForInTheForegroundIsStillRaised(backend: IOConfiguration.Backend) async throws {
    let setup = try await Setup(backend)
    let (io, back, engine) = (setup.io, setup.back, setup.scheduler.engine)
    try back.setBand(.foreground)
    try await eventually("it is in the foreground") {
      try await setup.broker.statistics().apps.first?.state == .active
    }
    // The reactor is held until the request has been posted, and the app has left.
    let gate = DispatchSemaphore(value: 0)
    setup.broker.reactor.post(Control { _ in gate.wait() })
    let asks = Numbers()
    let task = back.task {
      while TaskTree.ofCurrentTask(of: engine).0?.isWaitedFor != true { await Task.yield() }
      asks.add(1)
      try await io.nop()
    }
    let waiter = setup.front.task { try await task.value }
    let pool = try #require(engine.pools.first { $0.pool == .foreground })
    try await eventually("it has asked") { asks.count == 1 && opp_pool_working(pool.raw) == 0 }
    try back.setBand(.background)
    gate.signal()
    try await waiter.value
    try await setup.end()
  }

  // R-DISK-01 R-CPU-01
  /// Its app is in the foreground as it is queued, as the caller's is.
  @Test(arguments: backends)
  func whatIsQueuedIsRaisedAsItsAppGoesDown(backend: IOConfiguration.Backend) async throws {
    let setup = try await Setup(backend)
    let (io, back) = (setup.io, setup.back)
    try back.setBand(.foreground)
    back.suspend()
    try await eventually("it is suspended") {
      try await setup.broker.statistics().apps.first?.state == .suspended
    }
    let asked = setup.front.task { try await io.nop() }
    try await eventually("it is queued") {
      let storage = try await setup.broker.statistics().storage
      return storage.foregroundQueued + storage.backgroundQueued == 1
    }
    try back.setBand(.background)
    back.resume()
    try await asked.value
    try await setup.end()
  }

  // R-DISK-01 R-CPU-01
  @Test(arguments: backends)
  func aNewRequestOfATaskThatIsWaitedForGoesAsForeground(backend: IOConfiguration.Backend) async throws {
    let setup = try await Setup(backend)
    let io = setup.io
    try await setup.front.task { [back = setup.back] in
      try await back.task {
        await Self.untilDonated(io)
        try await io.nop()
      }.value
    }.value
    let app = try #require(try await setup.broker.statistics().apps.first)
    #expect(app.foreground.submitted == 1)
    #expect(app.background.submitted == 1)
    try await setup.end()
  }

  // R-DISK-01 R-CPU-01 R-CPU-02
  /// The foreground waits for a task, that for a strand, its message for a lock, and the lock's holder for
  /// its read.
  @Test(arguments: backends) func aChainReachesTheRead(backend: IOConfiguration.Backend) async throws {
    let setup = try await Setup(backend)
    let (io, back) = (setup.io, setup.back)
    let lock = try OpportuneLock(7, in: setup.scheduler)
    let middle = Middle(try back.makeStrand(named: "middle"))
    let holder = back.task {
      try await lock.withLock { value in
        try await io.nop()
        value += 1
      }
    }
    try await setup.waitForQueued(1)
    let value = try await setup.front.task {
      try await back.task {
        await Self.untilDonated(io)
        return try await middle.use(lock)
      }.value
    }.value
    #expect(value == 8)
    try await holder.value
    try await setup.end()
  }

  // R-DISK-01
  /// The donation stays with the request, and nothing else comes of it.
  @Test(arguments: backends) func aWaiterThatIsCancelledLeavesItRaised(backend: IOConfiguration.Backend)
    async throws
  {
    let setup = try await Setup(backend)
    let io = setup.io
    let lock = try OpportuneLock(0, in: setup.scheduler)
    let holder = setup.back.task { try await lock.withLock { _ in try await io.nop() } }
    try await setup.waitForQueued(1)
    // The reactor is held until the waiter is gone.
    let gate = DispatchSemaphore(value: 0)
    setup.broker.reactor.post(Control { _ in gate.wait() })
    let waiter = setup.front.task { try await lock.withLock { $0 } }
    try await eventually("the foreground waits") { lock.core.waiterCount == 1 }
    waiter.cancel()
    await #expect(throws: CancellationError.self) { try await waiter.value }
    gate.signal()
    try await holder.value
    let storage = try await setup.broker.statistics().storage
    #expect(storage.foregroundQueued + storage.backgroundQueued + storage.foregroundInFlight == 0)
    try await setup.end()
  }

  // R-DISK-01 R-CPU-06
  /// A job that blocks the strand's thread has its request raised by who waits for the strand.
  @Test(arguments: backends) func aBlockedStrandIsWaitedFor(backend: IOConfiguration.Backend) async throws {
    let setup = try await Setup(backend)
    let (io, file) = (setup.io, try FileDescriptor.open("/proc/self/exe", .readOnly))
    let strand = try setup.back.makeStrand(named: "strand")
    try strand.submit { _ = io.synchronizeDataWaiting(file.rawValue) }
    try await setup.waitForQueued(1)
    let middle = Middle(strand)
    _ = await setup.front.task { await middle.beThere() }.result
    #expect(try await setup.broker.statistics().storage.backgroundQueued == 0)
    try file.close()
    try await setup.end()
  }

  // R-DISK-01 R-FTS-07
  @Test(arguments: [true, false]) func onlyThoseThatRunDonate(followsDonations: Bool) async throws {
    let setup = try await Setup(.threads, followsDonations: followsDonations)
    let (io, front, back) = (setup.io, setup.front, setup.back)
    await front.task {
      await back.task {
        guard followsDonations else { return #expect(io.standing(on: .storage) == nil) }
        await Self.untilDonated(io)
        front.suspend()
        // A slice that was taken for the foreground may still run; the next is of the background.
        #expect(io.standing(on: .storage)?.donatedBand == nil)
        front.resume()
        #expect(io.standing(on: .storage)?.donatedBand == .foreground)
      }.value
    }.value
    try await setup.end()
  }
}
