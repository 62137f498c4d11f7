import COpportune
import Foundation
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Resources that the bands share: the allocator, the Swift runtime, the kernel's memory map. A background
/// thread that is stopped while it holds a lock of one of them must not delay the foreground for long.
@Suite(.bounded, .timeLimit(.minutes(5))) struct InversionTests {
  /// A group whose children allocate and free, on the executor of the caller.
  ///
  /// - Parameter hogs: counts the children that had the CPU for a quantum: they are no such work, the
  ///   machine's host took the CPU from under them.
  private func allocateInGroups(counting hogs: Tally? = nil) async {
    await withTaskGroup(of: Int.self) { group in
      for child in 0..<4 {
        group.addTask {
          let begun = SystemClock.threadCPU()
          defer { if SystemClock.threadCPU() - begun > 9_000_000 { hogs?.add(1) } }
          let kept = (0..<32).map { [UInt8](repeating: UInt8($0), count: 64 << (($0 + child) & 7)) }
          return kept.reduce(0) { $0 + $1.count }
        }
      }
      for await _ in group {}
    }
  }

  /// Nanoseconds from the submission to the start of foreground tasks that each run such a group.
  private func latencies(of app: App, count: Int, _ hogs: Tally) async throws -> [UInt64] {
    var latencies: [UInt64] = []
    for _ in 0..<count {
      let submitted = opp_now_ns()
      let started = await app.task {
        let started = opp_now_ns()
        await allocateInGroups(counting: hogs)
        return started
      }.value
      latencies.append(started - submitted)
      usleep(500)
    }
    return latencies.sorted()
  }

  // R-CPU-01 R-CARD-01
  /// Prints what it measures, with and without the background; OPPORTUNE_STRESS=30 gives a p99.9 that means
  /// something.
  @Test func foregroundGroupsEndBesideThoseOfTheBackground() async throws {
    let (scheduler, front) = try makeApp(named: "front", workers: 2)
    let back = try scheduler.makeApp(named: "back", band: .background)
    let (stop, groups, hogs) = (Flag(), Tally(), Tally())
    let count = 300 * stressScale
    let alone = try await latencies(of: front, count: count, hogs)
    let background = (0..<8).map { _ in
      back.task {
        while !stop.isUp {
          await allocateInGroups()
          groups.add(1)
        }
      }
    }
    let beside = try await latencies(of: front, count: count, hogs)
    stop.raise()
    for task in background { await task.value }
    #expect(groups.count > 0)
    // None but those; what their thread submits next may be lowered early, and the host may come at any other
    // instant.
    #expect(front.statistics.demotions <= UInt64(count / 100 + 2 * hogs.count), "\(hogs.count) hogs")
    try await scheduler.shutdown()
    func line(_ sorted: [UInt64]) -> String {
      func at(_ share: Double) -> UInt64 { sorted[Int(Double(sorted.count - 1) * share)] / 1000 }
      return "p50 \(at(0.5)), p99 \(at(0.99)), p99.9 \(at(0.999)), max \(at(1)) us"
    }
    print("alone: \(line(alone)); beside background: \(line(beside)); \(groups.count) background groups")
  }
}
