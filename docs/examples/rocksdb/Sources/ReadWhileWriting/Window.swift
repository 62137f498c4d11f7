import CRocksDB
import Foundation
import Opportune
import OpportuneRocksDB
import Synchronization

/// What one window measured. Times in microseconds, from the intended start to the answer.
struct WindowResult: Codable {
  struct Times: Codable {
    var count: Int
    var p50: Double
    var p99: Double
    var p999: Double
    var max: Double

    init(_ nanoseconds: [UInt64]) {
      let sorted = nanoseconds.sorted()
      func quantile(_ share: Double) -> Double {
        guard !sorted.isEmpty else { return 0 }
        let rank = Int((Double(sorted.count) * share).rounded(.up))
        return Double(sorted[Swift.min(Swift.max(rank, 1), sorted.count) - 1]) / 1000
      }
      count = sorted.count
      (p50, p99, p999, max) = (quantile(0.5), quantile(0.99), quantile(0.999), quantile(1))
    }
  }

  var contender: Contender
  var readUs: Times
  var writeUs: Times
  /// Bytes that compactions wrote in the window, a second; read, likewise; and flushes.
  var compactedMBPerS: Double
  var compactionReadMBPerS: Double
  var flushedMBPerS: Double
  /// Compaction that RocksDB owes at the end of the window, in MB.
  var pendingMB: Double
  /// Time that writers were held up for compaction.
  var stalledMs: Double
  /// How late the generator itself sent requests, 99th percentile.
  var sentLateUs: Double
}

/// Runs one contender's window: opens the database, sends requests at intended times, checks the answers,
/// closes everything.
struct Window {
  let settings: Settings
  let contender: Contender

  func run() async throws -> WindowResult {
    let scheduler = contender.hostsBackground ? try Scheduler() : nil
    let front = try scheduler?.makeApp(named: "server", band: .foreground)
    let back = try scheduler?.makeApp(named: "rocksdb", band: .background)
    let environment = back.map {
      RocksDBEnvironment(running: $0, flushes: contender.flushesInFront ? front : nil)
    }
    let database = try Database(
      at: settings.windowPath, environment: environment, options: settings.options(of: contender))
    let cores = ProcessInfo.processInfo.activeProcessorCount
    let requests: any Requests =
      if contender.hostsRequests, let front { try ForegroundRequests(front) } else {
        ThreadRequests(threads: 4 * cores)
      }
    let traffic = Traffic(settings, database)
    // A thread of its own: it sleeps to each intended time, and waits for RocksDB when it closes.
    let result = try await Self.onThread {
      let result = try traffic.run(on: requests, contender)
      try traffic.checkAll()
      try database.close()
      return result
    }
    try await scheduler?.shutdown()
    return result
  }

  private static func onThread<Value: Sendable>(
    _ body: @escaping () throws -> Value
  ) async throws -> Value {
    nonisolated(unsafe) let body = body
    return try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
  }
}

/// The open loop: requests are sent at intended times, whether or not those before are answered.
final class Traffic: Sendable {
  private let settings: Settings
  private let database: Database
  private let pairs: Pairs
  private let fault = Mutex<String?>(nil)

  init(_ settings: Settings, _ database: Database) {
    self.settings = settings
    self.database = database
    pairs = settings.pairs
  }

  func run(on requests: any Requests, _ contender: Contender) throws -> WindowResult {
    // The generator is to be late as seldom as may be. Where this is refused, the report says how late it is.
    // Threads that it starts, as RocksDB's may be, do not inherit the class (SCHED_RESET_ON_FORK).
    var priority = sched_param(sched_priority: 1)
    _ = sched_setscheduler(0, SCHED_FIFO | 0x4000_0000, &priority)

    let total = settings.warmSeconds + settings.seconds
    let reads = Samples(capacity: Int(settings.readsPerSecond * total * 1.2) + 1000)
    let writes = Samples(capacity: Int(100 * total) + 100)
    let late = Samples(capacity: reads.capacity)
    let batch = Batch(of: pairs, capacity: settings.pairsPerWrite)
    var random = Random(seed: 17)
    var write: UInt32 = 0

    let begin = now() + 10_000_000
    let measured = begin + UInt64(settings.warmSeconds * 1e9)
    let end = measured + UInt64(settings.seconds * 1e9)
    var nextRead = begin
    var nextWrite = begin
    var before: rocks_counts?
    while min(nextRead, nextWrite) < end, !hasFailed {
      let intended = min(nextRead, nextWrite)
      if intended >= measured, before == nil { before = database.counts }
      sleep(until: intended)
      let isMeasured = intended >= measured
      if isMeasured { late.add(now() - intended) }
      if nextRead <= nextWrite {
        let key = random.below(pairs.count)
        try requests.read { [self] in
          read(key)
          if isMeasured { reads.add(now() - intended) }
        }
        nextRead += UInt64(-log(random.unit()) * 1e9 / settings.readsPerSecond)
      } else {
        write += 1
        try requests.write { [self, write] in
          send(write, batch)
          if isMeasured { writes.add(now() - intended) }
        }
        nextWrite += 10_000_000
      }
    }
    let after = database.counts
    requests.finish()
    if let fault = fault.withLock({ $0 }) { throw WindowFailure(fault) }

    func perSecond(_ field: KeyPath<rocks_counts, UInt64>) -> Double {
      Double(after[keyPath: field] - (before?[keyPath: field] ?? 0)) / 1e6 / settings.seconds
    }
    return WindowResult(
      contender: contender, readUs: .init(reads.values), writeUs: .init(writes.values),
      compactedMBPerS: perSecond(\.compaction_written), compactionReadMBPerS: perSecond(\.compaction_read),
      flushedMBPerS: perSecond(\.flushed), pendingMB: Double(after.pending_compaction) / 1e6,
      stalledMs: perSecond(\.stall_us) * 1000 * settings.seconds,
      sentLateUs: WindowResult.Times(late.values).p99)
  }

  /// Once all is answered: each of some keys has its last write, and no other.
  func checkAll() throws {
    var random = Random(seed: 4)
    for _ in 0..<min(10_000, pairs.count) {
      let key = random.below(pairs.count)
      let found = read(key)
      guard found == UInt64(pairs.oldest(of: key)) else {
        throw WindowFailure("key \(key) is of write \(found), its last was \(pairs.oldest(of: key))")
      }
    }
    if let fault = fault.withLock({ $0 }) { throw WindowFailure(fault) }
  }

  private var hasFailed: Bool { fault.withLock { $0 != nil } }

  /// Reads and checks a key; returns the write that its value is of.
  @discardableResult
  private func read(_ key: Int) -> UInt64 {
    withUnsafeTemporaryAllocation(byteCount: Pairs.keyBytes + 2 * pairs.valueBytes, alignment: 8) { memory in
      let keyBytes = UnsafeMutableRawBufferPointer(rebasing: memory[..<Pairs.keyBytes])
      let valueEnd = Pairs.keyBytes + pairs.valueBytes
      let value = UnsafeMutableRawBufferPointer(rebasing: memory[Pairs.keyBytes..<valueEnd])
      let scratch = UnsafeMutableRawBufferPointer(rebasing: memory[valueEnd...])
      pairs.putKey(key, into: keyBytes)
      let oldest = pairs.oldest(of: key)
      do {
        let count = try database.read(UnsafeRawBufferPointer(keyBytes), into: value)
        let text = pairs.fault(in: value, count: count, of: key, since: oldest, scratch: scratch)
        if let text { fail(text) }
      } catch {
        fail("\(error)")
      }
      return value.loadUnaligned(as: UInt64.self)
    }
  }

  private func send(_ write: UInt32, _ batch: Batch) {
    let keys = pairs.keys(of: write, count: settings.pairsPerWrite)
    pairs.begin(write)
    do {
      try batch.write(keys, as: write, to: database)
      pairs.end(write, of: keys)
    } catch {
      fail("\(error)")
    }
  }

  private func fail(_ text: String) { fault.withLock { $0 = $0 ?? text } }
}

struct WindowFailure: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// Times from any thread, read after all have been added; what is beyond the capacity is left out.
final class Samples: @unchecked Sendable {
  let capacity: Int
  private let next = Atomic<Int>(0)
  // Each element is written by the one call that got its index.
  private let memory: UnsafeMutablePointer<UInt64>

  init(capacity: Int) {
    self.capacity = capacity
    memory = .allocate(capacity: capacity)
    // Touched here, so that no page fault is measured.
    memory.initialize(repeating: 0, count: capacity)
  }

  deinit { memory.deallocate() }

  func add(_ nanoseconds: UInt64) {
    let index = next.wrappingAdd(1, ordering: .relaxed).oldValue
    if index < capacity { memory[index] = nanoseconds }
  }

  var values: [UInt64] {
    Array(UnsafeBufferPointer(start: memory, count: min(capacity, next.load(ordering: .relaxed))))
  }
}

private func now() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}

private func sleep(until nanoseconds: UInt64) {
  var time = timespec(tv_sec: Int(nanoseconds / 1_000_000_000), tv_nsec: Int(nanoseconds % 1_000_000_000))
  while clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nil) == EINTR {}
}
