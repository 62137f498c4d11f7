import Foundation
import Glibc
import Logging
import Opportune
import TestSupport
import Testing

@testable import OpportuneApps

/// Which host owns a socket's path, and which client waits for which.
@Suite(.bounded) struct PushSocketTests {
  private let place = FileManager.default.temporaryDirectory.appending(
    path: "push-\(UUID().uuidString.prefix(8))"
  ).path

  private let line = Data("{\"app\":\"a\",\"kind\":\"k\"}\n".utf8)

  private func open(patience: Duration = .seconds(600), of who: Counter? = nil) throws(PushError)
    -> PushSocket
  {
    try PushSocket(
      path: place, patience: patience, users: [geteuid()], controllers: [],
      receive: { _ in
        who?.add()
        return nil
      }, control: { _ in .refused("") })
  }

  private func push() async throws {
    try await onOwnThread { [place] in try Push(app: "a", kind: "k").send(to: place, within: .seconds(50)) }
  }

  /// Bound, and left by who bound it, as a crash leaves it.
  private func leaveSocket(kind: __socket_type = SOCK_STREAM, listens: Bool = false) throws -> Int32 {
    unlink(place)  // of a host that has not ended yet, which leaves what is not its own
    let descriptor = socket(AF_UNIX, Int32(kind.rawValue), 0)
    let address = try #require(UnixSocketAddress(place))
    try #require(descriptor >= 0 && address.withPointer { bind(descriptor, $0, $1) } == 0)
    if listens { try #require(listen(descriptor, 0) == 0) }
    return descriptor
  }

  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func aHostIsRestartedOnItsSocket() async throws {
    do {
      let first = try open()
      try await push()
      withExtendedLifetime(first) {}
    }
    #expect(access(place, F_OK) != 0, "it takes its own away")
    do {
      let second = try open()
      try await push()
      withExtendedLifetime(second) {}
    }
    close(try leaveSocket())
    let afterCrash = try open()
    try await push()
    #expect(LocalSocket.File(place)?.isSocket == true)
    withExtendedLifetime(afterCrash) {}
  }

  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func whatIsNoDeadSocketStays() async throws {
    defer { unlink(place) }
    let calls = Counter()
    do {
      let first = try open(of: calls)
      #expect(throws: PushError(.taken(place, "a host that listens"))) { try open() }
      try await push()
      #expect(calls.value == 1, "it goes on as before")
      withExtendedLifetime(first) {}
    }
    // One that is stopped, and has a full queue.
    let stopped = try leaveSocket(listens: true)
    let waiting = try LocalSocket.connection(to: place)
    #expect(throws: PushError(.taken(place, "a host that listens"))) { try open() }
    for one in [waiting, stopped] { close(one) }
    unlink(place)
    // Of another kind, and open.
    let other = try leaveSocket(kind: SOCK_DGRAM)
    #expect(throws: PushError.self) { try open() }
    #expect(LocalSocket.File(place)?.isSocket == true)
    close(other)
    unlink(place)
    try Data("mine".utf8).write(to: URL(filePath: place))
    #expect(throws: PushError(.taken(place, "a file that is not a socket"))) { try open() }
    #expect(try Data(contentsOf: URL(filePath: place)) == Data("mine".utf8))
    let error = #expect(throws: PushError.self) { try Push(app: "a", kind: "k").send(to: place) }
    #expect(try #require(error).description == "\(place): this is a file, expected a host's socket")
  }

  /// It may be meant for the file behind it, and may be another's.
  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func aLinkIsCalledOneAndStays() throws {
    close(try leaveSocket())
    let target = place + ".dead"
    #expect(rename(place, target) == 0)
    defer { for path in [place, target] { unlink(path) } }
    #expect(symlink(target, place) == 0)
    let error = #expect(throws: PushError.self) { try open() }
    let what =
      "there is a symbolic link, which no host follows, at '\(place)': choose another path, or end or remove that"
    #expect(try #require(error).description == what)
    #expect(LocalSocket.File(target)?.isSocket == true && LocalSocket.File(place)?.kind == S_IFLNK)
    unlink(place)
    #expect(mkdir(place, 0o700) == 0)
    defer { rmdir(place) }
    #expect(throws: PushError(.taken(place, "a directory"))) { try open() }
  }

  /// Whoever may read a folder may lock it.
  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func whoLocksTheFolderKeepsNoHostFromStarting() async throws {
    let parent = FileManager.default.temporaryDirectory.path
    let folder = Glibc.open(parent, O_RDONLY | O_DIRECTORY)
    defer { close(folder) }
    #expect(flock(folder, LOCK_EX) == 0)
    close(try leaveSocket())
    var said: [String] = []
    for isLocked in [true, false] {
      if !isLocked { flock(folder, LOCK_UN) }
      let socket = try PushSocket(
        path: place, patience: .seconds(600), folderPatience: .zero, say: { said.append($0) },
        users: [geteuid()],
        controllers: [], receive: { _ in nil }, control: { _ in .refused("") })
      try await push()
      withExtendedLifetime(socket) {}
      #expect(
        said.count == 1 && said.first?.hasPrefix("another program has locked the folder '\(parent)") == true)
    }
  }

  /// The host's logger is told of it.
  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func theHostSaysThatItWaitsForALock() async throws {
    let folder = Glibc.open(FileManager.default.temporaryDirectory.path, O_RDONLY | O_DIRECTORY)
    defer { close(folder) }
    #expect(flock(folder, LOCK_EX) == 0)
    // Who reads that unlocks it, and the host goes on.
    let said = Counter()
    let logger = Logger(telling: { event in
      guard "\(event.message)".hasSuffix("the socket waits for it, 2.0 seconds at most") else { return }
      said.add()
      flock(folder, LOCK_UN)
    })
    let host = try AppHost(scheduler: try Scheduler(logger: logger))
    let socket = try await onOwnThread { [place] in try host.openPushSocket(at: place) }
    #expect(said.value == 1 && LocalSocket.File(socket.path)?.isSocket == true)
  }

  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func anAnswerIsOneLine() async throws {
    let socket = try PushSocket(
      path: place, users: [geteuid()], controllers: [], receive: { "no app '\($0.app)'" },
      control: { _ in .refused("") })
    let error = await #expect(throws: PushError.self) {
      try await onOwnThread { [place] in
        try Push(app: "x\nok\n", kind: "k").send(to: place, within: .seconds(50))
      }
    }
    #expect(error?.code == .refused("no app 'x\\nok\\n'"))
    withExtendedLifetime(socket) {}
  }

  /// Each may take the dead socket for its own, and one does.
  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func ofHostsThatStartAtOnceOneHasTheSocket() async throws {
    for round in 0..<50 {
      close(try leaveSocket())
      let all = try await withThrowingTaskGroup(of: Result<PushSocket, PushError>.self) { group in
        for _ in 0..<4 {
          group.addTask { try await onOwnThread { Result { () throws(PushError) in try open() } } }
        }
        return try await group.reduce(into: []) { $0.append($1) }
      }
      let opened = all.compactMap { try? $0.get() }
      #expect(opened.count == 1, "round \(round)")
      for case .failure(let error) in all {
        #expect(error.code == .taken(place, "a host that listens"))
      }
      try await push()
      withExtendedLifetime(opened) {}
    }
  }

  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func whoEndsLeavesTheSocketOfAnother() async throws {
    var first: PushSocket? = try open()
    unlink(place)
    let second = try open()
    withExtendedLifetime(first) {}
    first = nil
    try await push()
    withExtendedLifetime(second) {}
  }

  /// Several ask for more answers than the kernel keeps for them, and take none.
  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func whoTakesNoAnswerHoldsNobodyUp() async throws {
    let calls = Counter()
    let socket = try open(of: calls)
    let lines = Data((0..<2000).flatMap { _ in line })
    let deaf = try (0..<5).map { _ in try LocalSocket.connection(to: place) }
    defer { for one in deaf { close(one) } }
    for one in deaf { #expect(LocalSocket.write(lines, to: one)) }
    // Until none of them is answered any more.
    try await until {
      let before = calls.value
      try await push()
      return before >= deaf.count && calls.value == before + 1
    }
    #expect(calls.value < deaf.count * 2000, "they were answered without end")
    withExtendedLifetime(socket) {}
  }

  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func whoTakesNoAnswerIsCutOff() async throws {
    let socket = try open(patience: .milliseconds(200))
    let deaf = try LocalSocket.connection(to: place)
    defer { close(deaf) }
    #expect(LocalSocket.write(Data((0..<2000).flatMap { _ in line }), to: deaf))
    try await until {
      var polled = pollfd(fd: deaf, events: 0, revents: 0)
      return poll(&polled, 1, 0) == 1
    }
    try await push()
    withExtendedLifetime(socket) {}
  }

  /// More than are served at a time are connected, and say nothing.
  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func whoSaysNothingHoldsNobodyUp() async throws {
    let socket = try open()
    let silent = try (0..<100).map { _ in try LocalSocket.connection(to: place) }
    defer { for one in silent { close(one) } }
    try await push()
    // The last that came are still there, and are served when they speak.
    let last = try #require(silent.last)
    #expect(LocalSocket.write(line, to: last))
    #expect(
      try await onOwnThread { LocalSocket.readLine(from: last, LocalSocket.Patience(.seconds(50))) }
        == Data("ok".utf8))
    withExtendedLifetime(socket) {}
  }

  /// It has accepted nobody, or does not answer, or has no room to connect to.
  // R-MSG-02, R-LIFE-24
  @Test(.timeLimit(.minutes(1))) func aHostThatHangsIsWaitedForUpToALimit() async throws {
    let stopped = try leaveSocket(listens: true)
    defer {
      close(stopped)
      unlink(place)
    }
    // Who waits without a limit is told that it is gone.
    let end = DispatchWorkItem { shutdown(stopped, Int32(SHUT_RDWR)) }
    DispatchQueue.global().asyncAfter(deadline: .now() + 20, execute: end)
    defer { end.cancel() }
    let limit = Duration.milliseconds(50)
    var waiting: [Int32] = []
    for _ in 0..<2 {
      await #expect(throws: PushError(.timedOut(place, limit))) {
        try await onOwnThread { [place] in try Push(app: "a", kind: "k").send(to: place, within: limit) }
      }
      await #expect(throws: PushError(.timedOut(place, limit))) {
        try await onOwnThread { [place] in try SwitcherRequest(.list).send(to: place, within: limit) }
      }
      let last = LocalSocket.Patience(limit)
      while let one = try? LocalSocket.connection(to: place, last) { waiting.append(one) }
    }
    for one in waiting { close(one) }
  }
}
