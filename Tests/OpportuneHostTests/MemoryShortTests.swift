import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// Real processes when memory is short.
@Suite(.bounded) struct MemoryShortTests {
  private static let isRoot: Comment = "only with CAP_SYS_NICE another's memory is paged out"

  // R-MEM-01
  @Test(
    .enabled(if: geteuid() == 0, isRoot), .enabled(if: Backends.python != nil, "no python3 is there"),
    arguments: Backends.usable)
  func whatIsSuspendedIsPagedOutAndAnswersLater(backend: Backend) async throws {
    let (place, output, input) = (try Place(), try Output(), try Output())
    _ = fcntl(input.read, F_SETFL, 0)
    let hosted = try Hosted(backend, memoryGroups: false, shortage: ShortagePolicy(settle: .zero))
    let path = try MemoryHolder.file(in: place)
    let pid = try hosted.host.launch(
      [try #require(Backends.python), "-c", MemoryHolder.script, path], name: "app",
      descriptors: [input.read, output.written, -1])
    let first = try await output.line("end")
    // Who runs keeps what it has.
    #expect(try hosted.host.memoryIsShort() == [])
    let before = ProcessTable.memory(of: [pid])
    #expect(before > 128 << 20)
    try hosted.host.suspend("app")
    #expect(try hosted.host.memoryIsShort() == ["paging out what is suspended: app"])
    try await eventually("the note") {
      hosted.entry()?.notes.contains { $0.hasPrefix("memory was short: it was paged out") } == true
    }
    // The pages of the file need no swap.
    let after = ProcessTable.memory(of: [pid])
    #expect(after + (60 << 20) < before, "\(before) before, \(after) after")
    // Once for each time that it is suspended.
    #expect(try hosted.host.memoryIsShort() == [])
    try hosted.host.resume("app")
    _ = write(input.written, "\n", 1)
    #expect(try await output.line("end") == first)
    try hosted.host.suspend("app")
    #expect(try hosted.host.memoryIsShort() == ["paging out what is suspended: app"])
    try await hosted.end()
  }

  // R-MEM-01, R-MEM-09
  @Test func suspendedAppsAreTerminatedOneAtATime() async throws {
    let place = try Place()
    let hosted = try Hosted(.auto, shortage: ShortagePolicy(answer: .terminate, settle: .zero))
    let host = hosted.host
    let socket = try HostSocket.open(at: place.path) { host }
    func short() throws -> [String] {
      try HostRequest(.warn).send(to: place.path, within: .seconds(30)).notes ?? []
    }
    for name in ["one", "two", "runs"] {
      _ = try hosted.shell("exec sleep 600", name: name, foreground: true)
    }
    try host.suspend("one")
    try host.suspend("two")
    // The first word pages out; later ones terminate, from when that is done.
    #expect(try short() == ["paging out what is suspended: one, two"])
    var told: [String] = []
    try await eventually("the first") {
      told += try short()
      return told.count == 1
    }
    #expect(told[0].hasPrefix("'one' is terminated: it was suspended with"), "\(told)")
    #expect(told[0].hasSuffix("in front longest ago"), "\(told)")
    #expect(hosted.entry("two")?.state == "suspended")
    try await eventually("the second") {
      told += try short()
      return told.count == 2
    }
    #expect(told[1].hasPrefix("'two' is terminated"), "\(told)")
    try await eventually("the end of both") { host.apps().map(\.id) == ["runs"] }
    // Who runs is never ended, nor is who is in background.
    _ = try hosted.shell("exec sleep 600", name: "front", foreground: true)
    for _ in 0..<3 { #expect(try short() == []) }
    #expect(hosted.entry("runs")?.state == "background")
    try await hosted.end()
    withExtendedLifetime(socket) {}
  }

  /// A group of the machine's first hierarchy, with a limit, in which a process takes memory.
  // R-MEM-01
  @Test(
    .enabled(if: ProcessMemoryTests.hasGroups, "no group of version 1 that counts memory can be made"),
    .enabled(if: Backends.python != nil, "no python3 is there"))
  func aGroupThatComesCloseToItsLimitIsHeard() async throws {
    let group = try #require(MemoryGroup.make(key: Hosted.newKey(), name: "limited", group: nil))
    defer { group.remove() }
    #expect(try GroupPressure(folder: group.path) == nil)
    #expect(SystemFile.write("\(100 << 20)", to: group.path + "/memory.limit_in_bytes") == 0)
    let pressure = try #require(try GroupPressure(folder: group.path))
    let hosted = try Hosted(
      .auto, memoryGroups: false, shortage: ShortagePolicy(answer: .terminate, settle: .milliseconds(10)),
      groupPressures: [pressure])
    _ = try hosted.shell("exec sleep 600", name: "idle")
    try hosted.host.suspend("idle")
    let (output, input) = (try Output(), try Output())
    _ = fcntl(input.read, F_SETFL, 0)
    let script = "import sys\nsys.stdin.readline()\nheld = bytearray(92 << 20)\nprint('held', flush=True)\n"
    let pid = try hosted.host.launch(
      [try #require(Backends.python), "-c", script + "sys.stdin.readline()\n"], name: "taker",
      descriptors: [input.read, output.written, -1])
    #expect(group.adopt(pid) == 0)
    #expect(!pressure.isShort)
    _ = write(input.written, "\n", 1)
    // Told once, and looked at until it helps or nothing is left to take.
    try await eventually("the end of who is suspended") { hosted.host.apps().map(\.id) == ["taker"] }
    #expect(pressure.isShort)
    _ = try await output.line("held")
    try await hosted.end()
  }

  @Test func rangesAreReadOfTheirLines() {
    func range(_ line: String) -> Range<UInt64>? { ProcessTable.range(Array(line.utf8)) }
    #expect(range("7f00-7fff rw-p 00000000 00:00 0 [heap]") == 0x7f00..<0x7fff)
    #expect(range("7ffc000-7ffe000 r-xp 00000000 00:00 0 [vdso]") == nil)
    #expect(range("7fff-7f00 rw-p") == nil)
    #expect(range("nonsense") == nil)
    #expect(range("") == nil)
  }
}
