import Foundation
import Glibc
import Opportune
import Synchronization
import Testing

@testable import OpportuneApps

@Suite struct PushTests {
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
    await #expect(throws: PushError.refused("no app 'org.example.none' is registered")) {
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
    await #expect(throws: PushError.refused("this user may not push")) {
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
    let slow = try LocalSocket.open(place) { connect($0, $1, $2) }
    defer { close(slow) }
    var polled = pollfd(fd: slow, events: 0, revents: 0)  // until it hangs up
    while Glibc.send(slow, "x", 1, Int32(MSG_NOSIGNAL)) == 1, poll(&polled, 1, 1) == 0 { try Task.checkCancellation() }
    try await send(Push(app: "a", kind: "k"), place)
    #expect(socket.path == place)
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
