import COpportuneBench
import Synchronization

/// What work of the engine has used, in the same way for every contender: whichever thread ran it, and in
/// whatever class.
///
/// Work that goes from thread to thread has a stretch on each: its code begins one where it comes to run, and
/// ends it wherever it may wait. So the CPU time is that of the engine's own code. What the kernel, a broker
/// or an executor does for a read or a write is not in it, for none of the contenders.
final class WorkAccount: Sendable {
  /// Of the request that the task answers.
  @TaskLocal static var ofRequest: WorkAccount?

  private let nanoseconds = Atomic<UInt64>(0)
  private let forCPU = Atomic<UInt64>(0)
  private let blocked = Atomic<UInt64>(0)
  private let inReads = Atomic<UInt64>(0)
  private let forOthers = Atomic<UInt64>(0)
  private let bytesIn = Atomic<UInt64>(0)
  private let bytesOut = Atomic<UInt64>(0)

  /// Of the stretches that have ended, in nanoseconds.
  var cpu: UInt64 { nanoseconds.load(ordering: .relaxed) }
  /// Nanoseconds of those stretches in which the thread waited for a CPU.
  var cpuWait: UInt64 { forCPU.load(ordering: .relaxed) }
  /// Nanoseconds of those stretches in which the thread slept, for a lock or a page.
  var locks: UInt64 { blocked.load(ordering: .relaxed) }
  /// Nanoseconds between asking for a read and having it.
  var reading: UInt64 { inReads.load(ordering: .relaxed) }
  /// Nanoseconds of waiting for what others have under way: a block that is being read, a segment that is
  /// being built.
  var waiting: UInt64 { forOthers.load(ordering: .relaxed) }
  var bytesRead: UInt64 { bytesIn.load(ordering: .relaxed) }
  var bytesWritten: UInt64 { bytesOut.load(ordering: .relaxed) }

  /// The calling thread runs the work from here on.
  func begin() { opp_bench_stretch_begin() }

  /// The work ends, or may leave the thread. Without a stretch on the calling thread it does nothing.
  func end() {
    let stretch = opp_bench_stretch_end()
    nanoseconds.add(stretch.cpu, ordering: .relaxed)
    // Most are of some tens of microseconds, and wait for nothing.
    if stretch.cpu_wait > 0 { forCPU.add(stretch.cpu_wait, ordering: .relaxed) }
    if stretch.blocked > 0 { blocked.add(stretch.blocked, ordering: .relaxed) }
  }

  func hasRead(_ count: Int, in time: UInt64) {
    bytesIn.add(UInt64(count), ordering: .relaxed)
    inReads.add(time, ordering: .relaxed)
  }

  func hasWritten(_ count: Int) { bytesOut.add(UInt64(count), ordering: .relaxed) }

  /// Runs a piece of the work from its begin to its end.
  func run<Value>(_ body: () async throws -> Value) async rethrows -> Value {
    begin()
    defer { end() }
    return try await body()
  }

  /// Waits for what others have under way.
  func waitForOthers<Value>(_ body: () async throws -> Value) async rethrows -> Value {
    let begin = monotonicNow()
    defer { forOthers.add(monotonicNow() &- begin, ordering: .relaxed) }
    return try await wait(body)
  }

  /// Waits for what may come back on another thread, within a piece of the work.
  func wait<Value>(_ body: () async throws -> Value) async rethrows -> Value {
    end()
    defer { begin() }
    return try await body()
  }
}
