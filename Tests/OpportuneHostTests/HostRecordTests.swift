import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// What a host writes down for the next one, which finds the rest by itself.
@Suite(.bounded) struct HostRecordTests {
  private static let trees = "sleep 600 & (sleep 600 & sleep 600) & echo made; wait"

  /// A tree of processes that no host has started.
  private func startTree() async throws -> (shell: Process, pids: Set<Int32>) {
    let output = try Output()
    let shell = try startShell(Self.trees, output)
    _ = try await output.line("made")
    let root = try #require(ProcessStat(of: shell.processIdentifier))
    var tree = ProcessTree([root.id])
    try await eventually("its children") {
      tree.look(at: ProcessTable.all())
      // The shells that become sleep are not done yet; their pids stay.
      return tree.known.count >= 4
    }
    return (shell, Set(tree.known.map(\.pid)))
  }

  @Test(arguments: Backends.usable) func anAdoptedTreeIsTheNextHostsToo(backend: Backend) async throws {
    let place = try Place()
    let host = try await HostProgram(place, backend)
    let (shell, pids) = try await startTree()
    var request = HostRequest(.adopt, name: "tree")
    request.pid = shell.processIdentifier
    _ = try request.send(to: place.path)
    kill(host.process.processIdentifier, SIGKILL)
    host.process.waitUntilExit()
    let next = try await HostProgram(place, backend)
    let entries = try next.ask(.apps, nil).apps
    #expect(entries?.map(\.id) == ["tree"])
    #expect(entries.map { $0.flatMap(\.pids) }.map(Set.init) == pids)
    try next.ask(.terminate, "tree")
    shell.waitUntilExit()
    try await next.endWhenEmpty()
    // Nothing is left to know.
    #expect(!FileManager.default.fileExists(atPath: place.path + ".apps"))
  }

  /// Its host was killed when it had moved the first of them.
  @Test(arguments: Backends.usable) func whoseTakingHadBegunIsTakenToTheEnd(backend: Backend) async throws {
    let (place, key) = (try Place(), Hosted.newKey())
    let (shell, pids) = try await startTree()
    let root = try #require(ProcessStat(of: shell.processIdentifier))
    do {
      let maker = try GroupMaker(key: key, backend: backend)
      let group = try maker.tree?.group("half")
      try group?.adopt(root.pid)
      let entry = HostRecord.Entry(
        name: "half", mark: maker.mark(of: "half"), group: group?.path, known: [HostRecord.Known(root.id)],
        isTaking: true)
      #expect(HostRecord(at: place.path).write(entry).isEmpty)
    }
    let hosted = try Hosted(backend, key: key, record: place.path)
    #expect(hosted.entry("half").map { Set($0.pids) } == pids)
    try await hosted.end()
    shell.waitUntilExit()
  }

  @Test func twoOfOneNameAreTwoApps() async throws {
    let (place, key) = (try Place(), Hosted.newKey())
    let trees = [try await startTree(), try await startTree()]
    for (number, tree) in trees.enumerated() {
      let root = try #require(ProcessStat(of: tree.shell.processIdentifier))
      let entry = HostRecord.Entry(
        name: "app", mark: "\(key):app:\(number)", group: nil, known: [HostRecord.Known(root.id)])
      #expect(HostRecord(at: place.path).write(entry).isEmpty)
    }
    let hosted = try Hosted(.signals, key: key, record: place.path)
    #expect(hosted.host.apps().map(\.id) == ["app", "app-2"])
    #expect(Set(hosted.host.apps().map { Set($0.pids) }) == Set(trees.map(\.pids)))
    try await hosted.end()
    for tree in trees { tree.shell.waitUntilExit() }
  }

  private func entry(_ number: Int, known: [HostRecord.Known] = []) -> HostRecord.Entry {
    HostRecord.Entry(name: "app", mark: "key:app:\(number)", group: nil, known: known)
  }

  @Test func whatWasWrittenIsReadAndNoMore() throws {
    let place = try Place()
    let own = try #require(ProcessStat(of: getpid()))
    let known = HostRecord.Known(own.id)
    let record = HostRecord(at: place.path)
    #expect(record.entries.isEmpty)
    for number in 1...3 { #expect(record.write(entry(number, known: [known])).isEmpty) }
    var over = entry(2)
    over.hasEnded = true
    #expect(record.write(over).isEmpty)
    #expect(HostRecord(at: place.path).entries.keys.sorted() == ["key:app:1", "key:app:3"])
    #expect(HostRecord(at: place.path).entries["key:app:1"]?.known.first?.living?.pid == getpid())
    // As where the host was killed, or the disk was full, within a line.
    let file = try #require(FileHandle(forWritingAtPath: place.path))
    try file.seekToEnd()
    try file.write(contentsOf: Data(#"{"name":"app","mark":"key:app:1","known":[],"hasEn"#.utf8))
    try file.close()
    #expect(HostRecord(at: place.path).entries.count == 2)
    let next = HostRecord(at: place.path)
    #expect(next.write(entry(4)).isEmpty)
    #expect(HostRecord(at: place.path).entries.keys.sorted() == ["key:app:1", "key:app:3", "key:app:4"])
    // Of another process that has the number now.
    let other = ProcessID(pid: getpid(), started: own.id.started + 1)
    #expect(HostRecord.Known(other).living == nil)
  }

  @Test func itDoesNotGrowWithAllThatEverRan() throws {
    let place = try Place()
    let record = HostRecord(at: place.path)
    for number in 0..<4000 {
      _ = record.write(entry(number))
      var over = entry(number)
      over.hasEnded = true
      _ = record.write(over)
    }
    #expect(record.write(entry(4000)).isEmpty)
    let size = try FileManager.default.attributesOfItem(atPath: place.path)[.size] as? Int
    #expect(try #require(size) < 300_000)
    #expect(HostRecord(at: place.path).entries.keys.sorted() == ["key:app:4000"])
  }

  @Test func whatIsOfAnotherStartOrIsNoFileDoesNotCount() throws {
    let place = try Place()
    #expect(HostRecord(at: place.path).write(entry(1)).isEmpty)
    var lines = try String(contentsOfFile: place.path, encoding: .utf8).split(separator: "\n")
    #expect(lines.count == 2)
    lines[0] = #"{"boot":"another"}"#
    try lines.joined(separator: "\n").write(toFile: place.path, atomically: false, encoding: .utf8)
    #expect(HostRecord(at: place.path).entries.isEmpty)
    let link = place.path + ".link"
    #expect(HostRecord(at: place.path + ".own").write(entry(1)).isEmpty)
    #expect(symlink(place.path + ".own", link) == 0)
    #expect(HostRecord(at: link).entries.isEmpty)
    // Where it cannot be written, that is told.
    #expect(HostRecord(at: place.path + "/none/apps").write(entry(1)).first?.contains("could not") == true)
  }

  /// Else it might let go on what the next host suspends.
  @Test func aWardenIsWaitedForByTheNext() throws {
    let key = Hosted.newKey()
    var first = Warden(thawing: nil, key: key)
    #expect(try #require(first).isBesideAnother == false)
    #expect(try #require(Warden(thawing: nil, key: key, patience: .milliseconds(5))).isBesideAnother)
    #expect(try #require(Warden(thawing: nil, key: key + "-other")).isBesideAnother == false)
    first = nil
    #expect(try #require(Warden(thawing: nil, key: key)).isBesideAnother == false)
  }
}
