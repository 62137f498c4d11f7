import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// Hibernation of real, unmodified programs.
@Suite(.bounded) struct HibernateTests {
  /// What lists call paged out, or frozen alone.
  // R-LIFE-07
  @Test(arguments: [
    (100, 90, 0, true), (100, 91, 0, false), (100, 10, EPERM, false), (0, 0, 0, false), (5, 9, 0, false),
  ])
  func aTenthHasToLeave(before: UInt64, after: UInt64, error: Int32, hasFreed: Bool) {
    let result = PageOut.Result(before: before, after: after, error: error, hadSwap: true)
    #expect(result.hasFreed == hasFreed)
  }

  // R-LIFE-07, R-MEM-05
  @Test(
    .enabled(if: geteuid() == 0, "only with CAP_SYS_NICE another's memory is paged out"),
    .enabled(if: Backends.python != nil, "no python3 is there"), arguments: Backends.usable)
  func whatIsHibernatedLeavesMainMemoryAndGoesOnAsItWas(backend: Backend) async throws {
    let (place, output, input) = (try Place(), try Output(), try Output())
    _ = fcntl(input.read, F_SETFL, 0)
    let hosted = try Hosted(backend, memoryGroups: false, shortage: ShortagePolicy(settle: .zero))
    let pid = try hosted.host.launch(
      [try #require(Backends.python), "-c", MemoryHolder.script, try MemoryHolder.file(in: place)],
      name: "app", descriptors: [input.read, output.written, -1])
    let first = try await output.line("end")
    for isForeground in [true, false] {
      let before = ProcessTable.memory(of: [pid])
      #expect(before > 128 << 20)
      #expect(try hosted.host.hibernate("app") == nil)
      #expect(hosted.entry()?.state == "hibernated")
      try await eventually("the note") {
        hosted.entry()?.notes.contains { $0.hasPrefix("hibernated: it was ") } == true
      }
      // The pages of the file need no swap.
      let after = ProcessTable.memory(of: [pid])
      #expect(after + (60 << 20) < before, "\(before) before, \(after) after")
      // It is all gone already.
      #expect(try hosted.host.memoryIsShort() == [])
      #expect(try hosted.host.hibernate("app") == nil && hosted.host.suspend("app") == nil)
      #expect(hosted.entry()?.state == "hibernated")
      _ = write(input.written, "\n", 1)
      if isForeground { try hosted.host.bringForward("app") } else { try hosted.host.resume("app") }
      #expect(try await output.line("end") == first)
      #expect(hosted.entry()?.state == (isForeground ? "foreground" : "background"))
    }
    // Nothing of it runs any more.
    try hosted.host.hibernate("app")
    _ = write(input.written, "\n", 1)
    try hosted.host.terminate("app")
    try await eventually("its end") { hosted.entry() == nil }
    #expect(!output.comes(within: 0))
    try await hosted.end()
  }

  // R-MEM-08
  @Test func whoIsSuspendedAndNotUsedForLongIsHibernated() async throws {
    let hosted = try Hosted(.signals, hibernatesAfter: .milliseconds(50))
    for name in ["idle", "runs"] { _ = try hosted.shell("exec sleep 600", name: name) }
    try hosted.host.suspend("idle")
    try await eventually("its hibernation") { hosted.entry("idle")?.state == "hibernated" }
    #expect(hosted.entry("runs")?.state == "background")
    try hosted.host.resume("idle")
    #expect(hosted.entry("idle")?.state == "background")
    try hosted.host.bringForward("idle")
    #expect(hosted.entry("idle")?.state == "foreground")
    try await hosted.end()
  }

  // R-LIFE-07, R-LOCK-01
  @Test(.enabled(if: SystemFile.exists("/usr/bin/flock"), "no flock is there"))
  func theCommandWaitsForLocksAndTells() async throws {
    let place = try Place()
    let host = try await HostProgram(
      place, .auto, options: ["--lock-grace", "4", "--hibernate-after", "1d"])
    let (file, output) = (place.folder.appending(path: "lock").path, try Output())
    let program = try host.run(["flock", file, "sh", "-c", "echo up; exec sleep 600"], output: output)
    _ = try await output.line("up")
    func hibernate(_ arguments: String...) throws -> (status: Int32, said: String) {
      try told(by: ["hibernate", "--socket", place.path, "flock"] + arguments)
    }
    let refused = try hibernate()
    #expect(refused.status == 1)
    #expect(refused.said.contains("Note: app 'flock' goes on for now"))
    #expect(refused.said.contains("app 'flock' is not suspended: process"))
    #expect(try host.ask(.apps, nil).apps?.first?.state == "background")
    #expect(try hibernate("--locks", "ignore").status == 0)
    #expect(try host.ask(.apps, nil).apps?.first?.state == "hibernated")
    try host.ask(.front, "flock")
    #expect(try host.ask(.apps, nil).apps?.first?.state == "foreground")
    try host.ask(.terminate, "flock")
    program.waitUntilExit()
    try await host.endWhenEmpty()
  }

  @Test(arguments: ["x", "0s", "-5m", "367d"]) func aBadTimeIsRefused(text: String) throws {
    let (status, said) = try told(by: ["host", "--socket", "/nowhere/host.sock", "--hibernate-after=\(text)"])
    #expect(status == 64)
    #expect(said.contains("--hibernate-after is '\(text)': expected a number and s, m, h or d, up to 366d"))
  }

  /// What this process has swapped is nothing where there is no swap, and is brought in where there is some.
  // R-LIFE-07
  @Test func whatIsSwappedIsFoundAndBroughtIn() throws {
    let own = try #require(ProcessStat(of: getpid())?.id)
    let size = 8 << 20
    let block = UnsafeMutableRawPointer.allocate(byteCount: size, alignment: 1 << 20)
    defer { block.deallocate() }
    memset(block, 7, size)
    let pageOut: Int32 = 21  // MADV_PAGEOUT, which Glibc's module lacks
    guard madvise(block, size, pageOut) == 0 else { return print("skipped: nothing is paged out here") }
    let start = UInt64(UInt(bitPattern: block))
    func swapped() -> UInt64? {
      PageIn.swapped(of: getpid(), in: start..<start + UInt64(size)).map {
        $0.reduce(0) { $0 + UInt64($1.count) }
      }
    }
    guard let before = swapped() else { return print("skipped: this kernel is older than 6.7") }
    let swaps = try String(contentsOfFile: "/proc/swaps", encoding: .utf8).split(separator: "\n").count > 1
    if !swaps { #expect(before == 0) }
    guard before > 0 else { return print("skipped in part: there is no swap, or no room in it") }
    PageIn([own]).run()
    if geteuid() == 0 { #expect(swapped() == 0) }
    #expect(memcmp(block, block + 1, size - 1) == 0)
  }
}

/// A program that maps a file and reads all of it, has as much of its own, and answers each line by a sum of
/// both.
enum MemoryHolder {
  static let script = """
    import mmap, sys
    size = 64 << 20
    with open(sys.argv[1], 'r+b') as file:
      view = mmap.mmap(file.fileno(), size)
    own = bytearray(b'x') * size
    def total():
      return sum(view[place] + own[place] for place in range(0, size, 4096))
    print(total(), 'end', flush=True)
    for line in sys.stdin:
      print(total(), 'end', flush=True)
    """

  /// Of zeros; its pages are clean.
  static func file(in place: Place) throws -> String {
    let path = place.folder.appending(path: "mapped").path
    let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    defer { close(file) }
    guard file >= 0, posix_fallocate(file, 0, 64 << 20) == 0 else {
      throw POSIXError(POSIXError.Code(rawValue: errno) ?? .EIO)
    }
    fsync(file)
    return path
  }
}
