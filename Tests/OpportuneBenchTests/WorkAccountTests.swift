import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct WorkAccountTests {
  /// Ends by itself: the clock goes on as long as it is looked at.
  private func use(_ cpu: Nanoseconds) {
    let end = SystemClock.threadCPU() + cpu
    while SystemClock.threadCPU() < end {}
  }

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
