import COpportune
import Foundation
import OpportuneScheduler
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct EntriesTests {
  private func kinds(_ entries: FolderEntries) async throws -> [String: FolderEntry.Kind] {
    var kinds: [String: FolderEntry.Kind] = [:]
    for try await entry in entries {
      // Not within the expectation, which would copy them all each time.
      let before = kinds.updateValue(entry.kind, forKey: entry.name.string)
      #expect(before == nil, "\(entry.name) comes twice")
    }
    return kinds
  }

  private func expectAllClosed(_ io: AppIO) async throws {
    try await eventually("the folders' closing") {
      try await io.broker.statistics().apps[0].openDescriptors == 0
    }
  }

  @Test(arguments: backends)
  func eachEntryHasItsKind(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      #expect(try await kinds(io.entries(of: folder)) == [:])
      try await io.writeFile(folder.appending("file"), [1])
      try await io.writeFile(folder.appending("..two dots"), [1])
      #expect(mkdir(folder.appending("folder").string, 0o700) == 0)
      #expect(symlink("nowhere", folder.appending("link").string) == 0)
      _ = try makeFIFO(folder.appending("fifo"))
      #expect(
        try await kinds(io.entries(of: folder)) == [
          "file": .file, "..two dots": .file, "folder": .folder, "link": .symbolicLink, "fifo": .other,
        ])
      try await expectAllClosed(io)
    }
  }

  /// A name is bytes: what is no UTF-8 opens its file.
  @Test(arguments: backends)
  func namesKeepTheirBytes(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      let bytes: [CChar] = [0x61, -1, 0x62, 0]
      let name = try #require(
        bytes.withUnsafeBufferPointer { text in
          text.baseAddress.flatMap { FilePath.Component(platformString: $0) }
        })
      do {
        try await io.close(try await io.open(folder.appending(name), .writeOnly, options: [.create]))
      } catch {
        print("skipped: this file system has names of UTF-8 only")
        return
      }
      let entries = io.entries(of: folder).makeAsyncIterator()
      #expect(try await entries.next()?.name == name)
      #expect(try await entries.next() == nil)
      #expect(try await entries.next() == nil)
    }
  }

  /// More than one piece: each comes once. Whoever leaves the loop leaves nothing open.
  @Test(arguments: backends)
  func aLargeFolderIsReadInPieces(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      // Short, since a debug build looks at each byte of a name many times. A piece has room for 2730.
      let names = (0..<3000).map { "\($0)" }
      for name in names {
        let file = creat("\(folder)/\(name)", 0o600)
        try #require(file >= 0)
        _ = Glibc.close(file)
      }
      #expect(try await kinds(io.entries(of: folder)).keys.sorted() == names.sorted())
      do {
        let entries = io.entries(of: folder).makeAsyncIterator()
        #expect(try await entries.next() != nil)
        #expect(try await io.broker.statistics().apps[0].openDescriptors == 1)
      }
      try await expectAllClosed(io)
    }
  }

  @Test(arguments: backends)
  func errorsNameThePath(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      let (file, locked) = (folder.appending("file"), folder.appending("locked"))
      try await io.writeFile(file, [1])
      #expect(mkdir(locked.string, 0) == 0)
      var expected: [(FilePath, Errno)] = [
        (file, .notDirectory), (folder.appending("none"), .noSuchFileOrDirectory),
      ]
      if geteuid() != 0 { expected.append((locked, .permissionDenied)) }
      for (path, errno) in expected {
        let error = await #expect(throws: IOError.self) { _ = try await kinds(io.entries(of: path)) }
        #expect(error?.code == .system(errno))
        #expect(error?.message.contains(path.string) == true)
      }
      try await expectAllClosed(io)
    }
  }

  @Test(arguments: backends)
  func aCancelledReaderClosesTheFolder(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      for name in ["a", "b", "c"] { try await io.writeFile(folder.appending(name), [1]) }
      let reader = Task {
        let entries = io.entries(of: folder).makeAsyncIterator()
        _ = try await entries.next()
        withUnsafeCurrentTask { $0?.cancel() }
        let code = await code { _ = try await entries.next() }
        // Closed at once: not only when the iterator ends.
        #expect(try await Task { try await io.broker.statistics().apps[0].openDescriptors }.value == 0)
        #expect(try await entries.next() == nil)
        return code
      }
      #expect(try await reader.value == .cancelled)
    }
  }

  /// Nothing is read for a suspended app, and its time goes on. It learns of the end once it goes on itself.
  // R-FTS-06
  @Test(arguments: backends)
  func aSuspendedAppWaits(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      try await io.writeFile(folder.appending("a"), [1])
      io.setState(.suspended)
      let late = Task {
        await code { _ = try await kinds(io.entries(of: folder, within: .milliseconds(20))) }
      }
      try await eventually("the deadline") { try await io.broker.statistics().apps[0].held == 1 }
      let reading = Task { try await kinds(io.entries(of: folder)) }
      try await othersWork()
      io.setState(.active)
      #expect(await late.value == .deadlineExceeded)
      #expect(try await reading.value == ["a": .file])
    }
  }

  /// A worker of the background would hand its class on to a thread that it started, for which the foreground
  /// may wait next.
  // R-CPU-01
  @Test(arguments: [IOState.active, .background])
  func aThreadElsewhereHasTheClassOfItsApp(state: IOState) async throws {
    let (scheduler, broker) = (try Scheduler(), try makeBroker(.automatic))
    let worker = try scheduler.makeApp(named: "worker", band: .background)
    let io = try broker.makeApp(named: "files", state: state)
    let place = try await worker.task {
      try await io.elsewhere(on: .storage, within: nil) {
        var place = opp_sched_params()
        let error = opp_thread_get_sched(0, &place)
        return (error, place.policy, place.nice)
      }
    }.value
    var first = opp_sched_params()
    #expect(opp_thread_get_sched(getpid(), &first) == 0)
    #expect(place == (0, OPP_CLASS_NORMAL, state == .active ? first.nice : 19))
    await broker.shutdown()
    try await scheduler.shutdown()
  }

  /// The wait for a thread that does not come back ends as that of a request does.
  @Test(arguments: backends)
  func whoWaitsForAThreadElsewhereNeedNot(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "files")
    let gate = DispatchSemaphore(value: 0)
    let late = await code {
      try await io.elsewhere(on: .storage, within: .milliseconds(20)) { gate.wait() }
    }
    #expect(late == .deadlineExceeded)
    let cancelled = Task {
      await code { try await io.elsewhere(on: .storage, within: nil) { gate.wait() } }
    }
    cancelled.cancel()
    #expect(await cancelled.value == .cancelled)
    let (begins, begun) = AsyncStream.makeStream(of: Void.self)
    let ended = Task {
      await code {
        try await io.elsewhere(on: .network, within: nil) {
          begun.yield()
          gate.wait()
        }
      }
    }
    for await _ in begins { break }
    await io.terminate()
    #expect(await ended.value == .terminated)
    for _ in 0..<3 { gate.signal() }
  }
}
