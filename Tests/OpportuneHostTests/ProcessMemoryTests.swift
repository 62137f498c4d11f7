import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// What the apps of a host have in main memory.
@Suite(.bounded) struct ProcessMemoryTests {
  static let megabytes: UInt64 = 64
  /// A program that touches so much, and says so.
  static let holder = """
    import sys
    held = bytearray(\(megabytes) << 20)
    print('held', flush=True)
    for line in sys.stdin: pass
    """
  static let hasGroups: Bool = {
    let key = Hosted.newKey()
    let group = MemoryGroup.make(key: key, name: "probe", group: nil)
    group?.remove()
    return group != nil
  }()

  // R-MEM-15
  @Test func theBestThatIsKnownCounts() {
    #expect(
      MemoryUse.choose(group: 5, proportional: { 6 }, resident: { 7 }) == MemoryUse(bytes: 5, by: .group))
    #expect(
      MemoryUse.choose(group: 0, proportional: { 6 }, resident: { 7 }) == MemoryUse(bytes: 6, by: .pss))
    #expect(
      MemoryUse.choose(group: nil, proportional: { 6 }, resident: { 7 }) == MemoryUse(bytes: 6, by: .pss))
    #expect(
      MemoryUse.choose(group: nil, proportional: { nil }, resident: { 7 }) == MemoryUse(bytes: 7, by: .rss))
  }

  // R-MEM-15
  @Test(
    .enabled(if: hasGroups, "no group of version 1 that counts memory can be made"),
    .enabled(if: Backends.python != nil, "no python3 is there"), arguments: Backends.usable)
  func aGroupCountsWhatBeginsInIt(backend: Backend) async throws {
    let hosted = try Hosted(backend)
    let (output, input, python) = (try Output(), try Output(), try #require(Backends.python))
    _ = fcntl(input.read, F_SETFL, 0)
    let pid = try hosted.host.launch(
      [python, "-c", Self.holder], name: "app", descriptors: [input.read, output.written, -1])
    _ = try await output.line("held")
    let entry = try #require(hosted.entry())
    #expect(entry.memoryBy == .group)
    #expect(entry.memoryBytes >= Self.megabytes << 20)
    // All that it has made is charged to it, what it touched first included.
    let own = try #require(ProcessTable.anonymous(of: pid))
    #expect(entry.memoryBytes >= own, "\(entry.memoryBytes) of \(own)")
    let folder = try #require(MemoryGroup.tree(key: hosted.key))
    #expect(SystemFile.names(in: folder).contains("app"))
    try await hosted.end()
    #expect(!SystemFile.exists(folder))
  }

  // R-MEM-15
  @Test(.enabled(if: Backends.python != nil, "no python3 is there"))
  func whatIsTakenInIsCountedByItsPages() async throws {
    let hosted = try Hosted(.auto)
    let (output, input) = (try Output(), try Output())
    _ = fcntl(input.read, F_SETFL, 0)
    let process = try startProgram([try #require(Backends.python), "-c", Self.holder], output, input: input)
    _ = try await output.line("held")
    _ = try hosted.host.adopt(process.processIdentifier, name: "app")
    let entry = try #require(hosted.entry())
    #expect(entry.memoryBy == .pss)
    #expect(entry.memoryBytes >= Self.megabytes << 20)
    try await hosted.end()
    process.waitUntilExit()
  }

  // R-MEM-15
  @Test(.enabled(if: hasGroups, "no group of version 1 that counts memory can be made"))
  func whoIsTakenAloneBecomesAProgramThatIsCounted() async throws {
    let hosted = try Hosted(.auto)
    let (output, input) = (try Output(), try Output())
    _ = fcntl(input.read, F_SETFL, 0)
    let process = try startProgram(
      ["/bin/sh", "-c", "echo ready; read line; exec sh -c 'echo in; read line'"], output, input: input)
    _ = try await output.line("ready")
    _ = try hosted.host.adopt(process.processIdentifier, isTree: false, name: "app")
    _ = write(input.written, "\n", 1)
    _ = try await output.line("in")
    #expect(hosted.entry()?.memoryBy == .group)
    try await hosted.end()
    process.waitUntilExit()
  }

  // R-MEM-15
  @Test func withoutAGroupItsPagesAreCounted() async throws {
    let hosted = try Hosted(.auto, memoryGroups: false)
    _ = try hosted.shell("sleep 600 & wait")
    let entry = try #require(hosted.entry())
    #expect(entry.memoryBy == .pss)
    #expect(entry.memoryBytes > 0)
    #expect(ProcessTable.proportionalMemory(of: [getpid(), Int32.max]) ?? 0 > 0)
    try await hosted.end()
  }

  /// A host that is killed leaves a group that the next one finds.
  // R-MEM-15
  @Test(.enabled(if: hasGroups, "no group of version 1 that counts memory can be made"))
  func theNextHostFindsTheGroupOfAnApp() throws {
    let key = Hosted.newKey()
    let group = try #require(MemoryGroup.make(key: key, name: "app", group: nil))
    let process = try startProgram(["/bin/sleep", "600"])
    let pid = process.processIdentifier
    #expect(MemoryGroup.left(key: key, name: "app", member: pid) == nil)
    #expect(group.adopt(pid) == 0)
    MemoryGroup.sweep(key: key)
    #expect(MemoryGroup.left(key: key, name: "app", member: pid)?.path == group.path)
    kill(pid, SIGKILL)
    process.waitUntilExit()
    MemoryGroup.sweep(key: key)
    #expect(!SystemFile.exists(group.path))
    #expect(MemoryGroup.tree(key: key).map { SystemFile.exists($0) } == false)
  }
}

extension ProcessTable {
  /// Bytes of a process that are of no file.
  static func anonymous(of pid: pid_t) -> UInt64? {
    let lines = SystemFile.text("/proc/\(pid)/smaps_rollup")?.split(separator: "\n") ?? []
    let words = lines.first { $0.hasPrefix("Anonymous:") }?.split(separator: " ")
    return words?.dropFirst().first.flatMap { UInt64($0) }.map { $0 * 1024 }
  }
}
