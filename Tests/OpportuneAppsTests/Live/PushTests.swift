import Foundation
import Glibc
import Opportune
import TestSupport
import Testing

@testable import OpportuneApps

@Suite(.bounded) struct PushTests {
  private func path() -> String {
    FileManager.default.temporaryDirectory.appendingPathComponent("push-\(UUID().uuidString.prefix(8))").path
  }

  // R-MSG-02, R-MSG-03
  @Test(.timeLimit(.minutes(1))) func aPushFromOutsideReachesItsApp() async throws {
    struct Mail: AppDelegate {
      let got: AsyncStream<AppNotice>.Continuation
      func didReceive(_ notice: AppNotice) async { got.yield(notice) }
    }
    let host = try AppHost()
    let (notices, got) = AsyncStream.makeStream(of: AppNotice.self)
    let app = try await host.launch(Manifest(identifier: "org.example.mail")) { _ in Mail(got: got) }
    let place = path()
    let socket = try host.openPushSocket(at: place)
    try await send(Push(app: "org.example.mail", kind: "mail", payload: ["from": "ada"]), place)
    for await notice in notices {
      #expect(notice == .message(Message("mail", payload: ["from": "ada"])))
      break
    }
    await #expect(throws: PushError(.refused("no app 'org.example.none' is registered"))) {
      try await send(Push(app: "org.example.none", kind: "mail"), place)
    }
    #expect(socket.path == place)
    _ = app
  }

  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func otherUsersMayNotPush() async throws {
    let place = path()
    let calls = Counter()
    let socket = try PushSocket(path: place, users: [geteuid() &+ 1]) { _ in
      calls.add()
      return nil
    }
    await #expect(throws: PushError(.refused("this user may not push"))) {
      try await send(Push(app: "a", kind: "k"), place)
    }
    #expect(calls.value == 0 && socket.path == place)
  }

  /// Sends a byte every millisecond, for as long as it is served.
  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func whoTakesForeverForALineIsCutOff() async throws {
    let place = path()
    let socket = try PushSocket(
      path: place, patience: .seconds(1), users: [geteuid()], controllers: [],
      receive: { _ in nil }, control: { _ in .refused("") })
    let slow = try LocalSocket.connection(to: place)
    defer { close(slow) }
    var polled = pollfd(fd: slow, events: 0, revents: 0)  // until it hangs up
    while Glibc.send(slow, "x", 1, Int32(MSG_NOSIGNAL)) == 1, poll(&polled, 1, 1) == 0 {
      try Task.checkCancellation()
    }
    try await send(Push(app: "a", kind: "k"), place)
    #expect(socket.path == place)
  }

  /// One that says a line again and again, for as long as it is answered: another is served in between.
  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func whoNeverStopsHoldsNobodyUp() async throws {
    let place = path()
    let socket = try PushSocket(path: place) { _ in nil }
    let greedy = try LocalSocket.connection(to: place)
    let (answers, mayEnd, ended) = (Counter(), Counter(), Counter())
    Thread.detachNewThread {
      let line = Data("{\"app\":\"a\",\"kind\":\"k\"}\n".utf8)
      // Several are there when it is its turn; so many that the other is served at last where it has to wait.
      for _ in 0..<200_000 where mayEnd.value == 0 {
        guard LocalSocket.write(line + line, to: greedy) else { break }
        for _ in 0..<2 where LocalSocket.readLine(from: greedy) == Data("ok".utf8) { answers.add() }
      }
      ended.add()
    }
    try await until { answers.value >= 10 }
    for _ in 0..<3 { try await send(Push(app: "a", kind: "k"), place) }
    #expect(ended.value == 0, "it waited for the other's end")
    let before = answers.value
    try await until { answers.value > before + 10 || ended.value > 0 }
    #expect(ended.value == 0)
    mayEnd.add()
    try await until { ended.value > 0 }
    close(greedy)
    #expect(socket.path == place)
  }

  /// However much of it comes at once, and with its end.
  // R-MSG-02
  @Test(.timeLimit(.minutes(1))) func eachLineIsAnsweredInItsTurn() async throws {
    let place = path()
    let seen = AtomicBox<[String]>([])
    let socket = try PushSocket(path: place) { push in
      seen.change { $0.append(push.kind) }
      return push.kind == "b" ? "not now" : nil
    }
    let client = try LocalSocket.connection(to: place)
    defer { close(client) }
    let lines = ["a", "b", "c"].map { "{\"app\":\"a\",\"kind\":\"\($0)\"}\n" }.joined()
    #expect(LocalSocket.write(Data(lines.utf8), to: client))
    let answers = (0..<3).map { _ in
      LocalSocket.readLine(from: client).map { String(decoding: $0, as: UTF8.self) }
    }
    #expect(answers == ["ok", "not now", "ok"] && seen.value == ["a", "b", "c"])
    let long = Data(repeating: 120, count: LocalSocket.longestLine)
    #expect(LocalSocket.write(long, to: client))
    let refusal = LocalSocket.readLine(from: client).map { String(decoding: $0, as: UTF8.self) }
    #expect(refusal == "the line is longer than 65536 bytes" && LocalSocket.readLine(from: client) == nil)
    // One that has said all it has to say, and waits for the answer.
    let last = try LocalSocket.connection(to: place)
    defer { close(last) }
    #expect(LocalSocket.write(Data("{\"app\":\"a\",\"kind\":\"d\"}\n".utf8), to: last))
    #expect(shutdown(last, Int32(SHUT_WR)) == 0)
    #expect(LocalSocket.readLine(from: last) == Data("ok".utf8))
    #expect(LocalSocket.readLine(from: last) == nil && socket.path == place)
  }

  @Test func pathsThatCannotBeAreNamed() {
    #expect(throws: PushError.self) { try PushSocket(path: String(repeating: "x", count: 200)) { _ in nil } }
    #expect(throws: PushError.self) { try PushSocket(path: "") { _ in nil } }
    #expect(throws: PushError.self) { try Push(app: "a", kind: "k").send(to: "/nonexistent/socket") }
  }

  /// Off the pool of the language: it blocks.
  private func send(_ push: Push, _ place: String) async throws {
    let result: Result<Void, any Error> = await withCheckedContinuation { continuation in
      Thread.detachNewThread { continuation.resume(returning: Result { try push.send(to: place) }) }
    }
    try result.get()
  }
}
