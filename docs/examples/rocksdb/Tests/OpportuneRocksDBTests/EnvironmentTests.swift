import CRocksDB
import Foundation
import Opportune
import OpportuneRocksDB
import Synchronization
import Testing

/// What RocksDB relies on of an Env, most of all when a database is closed.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct EnvironmentTests {
  let scheduler: Scheduler
  let app: App

  init() throws {
    scheduler = try Scheduler()
    app = try scheduler.makeApp(named: "rocksdb", band: .background)
  }

  @Test func eachJobRunsOnceWithinTheLimitOfItsPool() async throws {
    let work = Work()
    let environment = RocksDBEnvironment(running: app)
    environment.setThreads(2, .low)
    #expect(environment.threads(.low) == 2)
    for _ in 0..<1000 { environment.schedule(work, .low) }
    try await eventually { work.ran == 1000 }
    #expect(work.mostAtOnce <= 2)
    #expect(work.unscheduled == 0)
    withExtendedLifetime(environment) {}
  }

  @Test func aPoolWithoutThreadsRunsNothingUntilItIsGivenSome() async throws {
    let work = Work()
    let environment = RocksDBEnvironment(running: app)
    environment.schedule(work, .high)
    #expect(environment.queueLength(.high) == 1)
    environment.raiseThreads(1, .high)
    try await eventually { work.ran == 1 }
    environment.raiseThreads(0, .high)
    #expect(environment.threads(.high) == 1)
    environment.setThreads(0, .high)
    #expect(environment.threads(.high) == 0)
    withExtendedLifetime(environment) {}
  }

  @Test func flushesRunInTheAppThatIsNamedForThem() async throws {
    let (flush, compaction) = (Work(), Work())
    let front = try scheduler.makeApp(named: "flushes", band: .foreground)
    let environment = RocksDBEnvironment(running: app, flushes: front)
    app.suspend()
    for pool in [rocks_pool.high, .low] { environment.setThreads(1, pool) }
    environment.schedule(compaction, .low)
    environment.schedule(flush, .high)
    try await eventually { flush.ran == 1 }
    #expect(compaction.ran == 0)
    app.resume()
    try await eventually { compaction.ran == 1 }
    withExtendedLifetime(environment) {}
  }

  @Test func whatIsQueuedIsTakenBackByTagAlone() async throws {
    let (kept, taken) = (Work(), Work())
    let environment = RocksDBEnvironment(running: app)
    app.suspend()
    environment.setThreads(1, .low)
    for _ in 0..<3 {
      environment.schedule(kept, .low)
      environment.schedule(taken, .low)
    }
    environment.schedule(taken, .bottom)
    #expect(environment.queueLength(.low) == 6)
    #expect(environment.unschedule(taken, .low) == 3)
    #expect(environment.unschedule(taken, .low) == 0)
    #expect(taken.unscheduled == 3)
    #expect(environment.queueLength(.low) == 3)
    #expect(environment.queueLength(.bottom) == 1)
    app.resume()
    try await eventually { kept.ran == 3 }
    #expect(taken.ran == 0)
    #expect(kept.unscheduled == 0)
    withExtendedLifetime(environment) {}
  }

  @Test func itsEndWaitsForTheJobThatRunsAndDropsWhatIsQueued() async throws {
    let (running, queued) = (Work(), Work())
    running.isHeld.store(true, ordering: .relaxed)
    var environment: RocksDBEnvironment? = RocksDBEnvironment(running: app)
    environment?.setThreads(1, .low)
    environment?.schedule(running, .low)
    try await eventually { running.began == 1 }
    environment?.schedule(queued, .low)
    DispatchQueue.global().asyncAfter(deadline: .now() + 0.05) {
      running.isHeld.store(false, ordering: .relaxed)
    }
    environment = nil
    #expect(running.ran == 1)
    #expect(queued.unscheduled == 1)
    #expect(queued.ran == 0)
  }

  @Test func aTurnThatIsStillQueuedOutlivesTheEnvironment() async throws {
    let work = Work()
    var environment: RocksDBEnvironment? = RocksDBEnvironment(running: app)
    app.suspend()
    environment?.setThreads(2, .low)
    environment?.schedule(work, .low)
    environment?.schedule(work, .low)
    #expect(environment?.unschedule(work, .low) == 2)
    environment = nil
    app.resume()
    let after = Work()
    try app.submit { after.run() }
    try await eventually { after.ran == 1 }
    #expect(work.ran == 0)
    #expect(work.unscheduled == 2)
  }

  @Test func whatASchedulerNoLongerTakesRunsInRocksDBsOwnThreads() async throws {
    let (before, after) = (Work(), Work())
    let environment = RocksDBEnvironment(running: app)
    environment.setThreads(1, .low)
    app.suspend()
    environment.schedule(before, .low)
    try await scheduler.shutdown()
    environment.schedule(after, .low)
    try await eventually { before.ran == 1 && after.ran == 1 }
    withExtendedLifetime(environment) {}
  }

  @Test func aDatabaseIsClosedWhileItCompactsAndKeepsEverything() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("rocks-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var options = Database.Options()
    options.writeBufferBytes = 64 << 10
    for round in UInt64(0)..<8 {
      let environment = RocksDBEnvironment(running: app)
      let database = try Database(at: folder, environment: environment, options: options)
      if round > 0 { #expect(try read(7, of: database) == round - 1) }
      for first in stride(from: UInt64(0), to: 20_000, by: 100) {
        try write(first..<first + 100, value: round, to: database)
      }
      // At once: flushes and compactions are queued and running.
      try database.close()
    }
    let database = try Database(at: folder, environment: nil, options: options)
    for key in UInt64(0)..<20_000 { #expect(try read(key, of: database) == 7) }
    try database.close()
    #expect(app.statistics.jobs > 0)
  }

  @Test func aDatabaseOfASuspendedAppCanBeClosed() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("rocks-\(UUID())").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var options = Database.Options()
    options.writeBufferBytes = 64 << 10
    let database = try Database(at: folder, environment: RocksDBEnvironment(running: app), options: options)
    app.suspend()
    await app.untilSuspended()
    try write(0..<1500, value: 1, to: database)
    try database.close()
    app.resume()
  }

  private func write(_ keys: Range<UInt64>, value: UInt64, to database: Database) throws {
    let keyWords = keys.map(\.bigEndian)
    let values = [UInt64](repeating: value, count: keyWords.count)
    try keyWords.withUnsafeBytes { keys in
      try values.withUnsafeBytes { try database.write(keys: keys, values: $0, count: keyWords.count) }
    }
  }

  private func read(_ key: UInt64, of database: Database) throws -> UInt64? {
    var value: UInt64 = 0
    let count = try withUnsafeBytes(of: key.bigEndian) { key in
      try withUnsafeMutableBytes(of: &value) { try database.read(key, into: $0) }
    }
    return count == 8 ? value : nil
  }
}

/// Jobs that count themselves; also the tag that they are scheduled with.
final class Work: Sendable {
  let isHeld = Atomic(false)
  private let counts = Mutex((began: 0, now: 0, most: 0, ran: 0, unscheduled: 0))

  var began: Int { counts.withLock { $0.began } }
  var ran: Int { counts.withLock { $0.ran } }
  var mostAtOnce: Int { counts.withLock { $0.most } }
  var unscheduled: Int { counts.withLock { $0.unscheduled } }

  func run() {
    counts.withLock {
      $0.began += 1
      $0.now += 1
      $0.most = max($0.most, $0.now)
    }
    while isHeld.load(ordering: .relaxed) { usleep(1000) }
    counts.withLock {
      $0.now -= 1
      $0.ran += 1
    }
  }

  func takeBack() { counts.withLock { $0.unscheduled += 1 } }
}

/// What RocksDB calls. The tests keep each `Work` until its jobs have ended.
extension RocksDBEnvironment {
  func schedule(_ work: Work, _ pool: rocks_pool) {
    let pointer = Unmanaged.passUnretained(work).toOpaque()
    rocks_env_schedule(
      raw, { $0.map { Unmanaged<Work>.fromOpaque($0).takeUnretainedValue().run() } }, pointer, pool, pointer,
      { $0.map { Unmanaged<Work>.fromOpaque($0).takeUnretainedValue().takeBack() } })
  }

  func unschedule(_ work: Work, _ pool: rocks_pool) -> Int {
    Int(rocks_env_unschedule(raw, Unmanaged.passUnretained(work).toOpaque(), pool))
  }

  func queueLength(_ pool: rocks_pool) -> Int { Int(rocks_env_queue_length(raw, pool)) }
  func setThreads(_ count: Int, _ pool: rocks_pool) { rocks_env_set_threads(raw, Int32(count), pool) }
  func raiseThreads(_ count: Int, _ pool: rocks_pool) { rocks_env_raise_threads(raw, Int32(count), pool) }
  func threads(_ pool: rocks_pool) -> Int { Int(rocks_env_threads(raw, pool)) }
}

struct NeverHappened: Error {}

func eventually(_ condition: () -> Bool) async throws {
  for _ in 0..<30_000 {
    if condition() { return }
    try await Task.sleep(for: .milliseconds(1))
  }
  throw NeverHappened()
}
