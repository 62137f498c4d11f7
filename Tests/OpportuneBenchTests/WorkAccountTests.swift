import Foundation
import OpportuneBase
import Synchronization
import TestSupport
import Testing

@testable import OpportuneBench

/// Ends by itself: the clock goes on as long as it is looked at.
private func use(_ cpu: Nanoseconds) {
  let end = SystemClock.threadCPU() + cpu
  while SystemClock.threadCPU() < end {}
}

/// The kernel's number of the calling thread.
private func ownThread() -> Int {
  let link = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/thread-self")
  return link.flatMap { Int($0.split(separator: "/").last ?? "") } ?? 0
}

/// Whether a thread of the process sleeps.
private func isAsleep(_ thread: Int) -> Bool {
  guard let stat = try? String(contentsOfFile: "/proc/self/task/\(thread)/stat", encoding: .utf8),
    let state = stat.split(separator: ")").last?.dropFirst().first
  else { return false }
  return state == "S"
}

@Suite(.bounded) struct WorkAccountTests {
  /// Of a piece of work that waits: what runs meanwhile on its thread is not its own.
  @Test func cpuTimeIsThatOfTheWorkAlone() async {
    let account = WorkAccount()
    await account.run {
      use(2_000_000)
      await account.wait { use(50_000_000) }
      use(2_000_000)
    }
    #expect((4_000_000..<40_000_000).contains(account.cpu), "\(account.cpu)")
    // Outside of it nothing is counted.
    let before = account.cpu
    use(2_000_000)
    account.end()
    #expect(account.cpu == before)
  }

  // R-CARD-06
  /// More threads than CPUs: the work waits for a CPU now and then. It sleeps for a lock, and who has it uses
  /// 20 ms from when it sleeps.
  @Test(
    .enabled(if: access("/proc/thread-self/schedstat", R_OK) == 0, "this kernel keeps no account of waits"))
  func waitsForACPUAndForALockAreTold() async {
    final class Shared: Sendable {
      let lock = Mutex(())
      let isHeld = Atomic<Bool>(false)
      /// The thread of the work, from when the work runs.
      let thread = Atomic<Int>(0)
      let isOver = Atomic<Bool>(false)
    }
    let shared = Shared()
    let account = WorkAccount()
    for _ in 0..<2 * ProcessInfo.processInfo.activeProcessorCount {
      Thread.detachNewThread { while !shared.isOver.load(ordering: .relaxed) {} }
    }
    await account.run {
      while account.cpuWait == 0 {
        use(5_000_000)
        await account.wait {}
      }
    }
    shared.isOver.store(true, ordering: .relaxed)
    Thread.detachNewThread {
      shared.lock.withLock { _ in
        shared.isHeld.store(true, ordering: .relaxed)
        while !isAsleep(shared.thread.load(ordering: .relaxed)) {}
        use(20_000_000)
      }
    }
    while !shared.isHeld.load(ordering: .relaxed) {}
    await account.run {
      shared.thread.store(ownThread(), ordering: .relaxed)
      shared.lock.withLock { _ in }
    }
    #expect(account.locks >= 15_000_000, "\(account.locks) ns asleep")
  }

  /// Queries read as asked, background always without the page cache.
  @Test(arguments: FileAccess.allCases)
  func queriesReadAsAsked(_ files: FileAccess) async throws {
    let folder = try ServeTestFolder()
    let plain = WatchedDisk()
    let disk = CountedDisk(disk: plain, background: WorkAccount(), files: files)
    _ = try await SegmentBuild.write(
      randomDocuments(2, words: 9, seed: 1), to: "\(folder.path)/one", on: disk, for: .background)
    plain.forget()
    let segment = try await SegmentFile.open("\(folder.path)/one", on: disk, for: .background)
    _ = try await segment.readBlocks(1, count: 1, for: .background)
    #expect(plain.reads.allSatisfy { $0 == .reading } && !plain.reads.isEmpty)
    plain.forget()
    _ = try await segment.readBlocks(1, count: 1, for: .foreground)
    #expect(plain.reads == [files == .cached ? .readingCached : .reading])
  }

  /// Blocks of both sides, of which those of background count.
  @Test func whatBackgroundReadsAndWritesIsCounted() async throws {
    let folder = try ServeTestFolder()
    let account = WorkAccount()
    let disk = CountedDisk(disk: PlainDisk(), background: account)
    let path = "\(folder.path)/file"
    let file = try await disk.open(path, .creating, for: .background)
    for side in Side.allCases {
      try await file.write(2 * DiskBlock.size, at: 0, for: side) {
        $0.copyBytes(from: repeatElement(7, count: 8))
      }
      _ = try await file.read(DiskBlock.size, at: 0, for: side) { $0[7] }
    }
    #expect(account.bytesWritten == 2 * 4096 && account.bytesRead == 4096)
  }
}
