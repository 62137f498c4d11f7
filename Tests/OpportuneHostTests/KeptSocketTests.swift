import Foundation
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// A program that speaks the protocol itself and keeps sockets alive. It prints each event, of its sockets
/// with number and bytes, and what it has read. Arguments: the socket of the host; the port that it connects
/// to; then `keep=N`: it hands over so many; `line=LINE` says that with a descriptor of a file;
/// `bare=LINE`: with none; `deaf`: it reads nothing; `late`: it reads when a line has come, and answers then.
private let script = """
  print(join(words[0]), flush=True)
  peer = socket.create_connection(("127.0.0.1", int(words[1])))
  for number in range(int(value("keep") or 0)): say('{"keepAlive":%d}' % (number + 1), peer.fileno())
  if value("line"): say(value("line"), os.open("/proc/self/exe", os.O_RDONLY))
  if value("bare"): say(value("bare"))
  if "own" in words: say('{"keepAlive":1}', s.fileno())
  if "many" in words: say('{"keepAlive":1}', *([peer.fileno()] * 20))
  if "file" in words: say('{"keepAlive":1}', os.open("/proc/self/exe", os.O_RDONLY))
  if "pipe" in words: say('{"keepAlive":1}', os.pipe()[0])
  if "go" in words: say('{"letGo":1}')
  for told in events():
      print(*(str(told[key]) for key in ("event", "socket", "bytes", "reason") if key in told), flush=True)
      if told["event"] == "didReceiveData":
          if "late" in words: sys.stdin.readline()
          if "deaf" not in words: print("read", peer.recv(4096).decode(), flush=True)
      try:
          if "id" in told: say('{"answer":%d}' % told["id"])
      except OSError: pass
  print("over", flush=True)
  while True: signal.pause()
  """

/// The host with its socket, a peer that such a program connects to, and what it prints.
private final class Kept: JoinedHost {
  private let listener: Int32
  private(set) var peer: Int32 = -1

  init(
    _ backend: Backend = .auto, catalog: ManifestCatalog = ManifestCatalog(), states: String? = nil,
    answerGrace: Duration = .seconds(60)
  ) throws {
    listener = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    try super.init(
      Hosted(backend, catalog: catalog, answerGrace: answerGrace, states: states, hasSwap: false))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let size = socklen_t(MemoryLayout.size(ofValue: address))
    let isBound = withUnsafeBytes(of: &address) { bytes in
      bytes.baseAddress.map { bind(listener, $0.assumingMemoryBound(to: sockaddr.self), size) } == 0
    }
    try #require(isBound && listen(listener, 4) == 0)
  }

  deinit { for one in [listener, peer] where one >= 0 { close(one) } }

  private var port: Int {
    var (address, size) = (sockaddr_in(), socklen_t(MemoryLayout<sockaddr_in>.size))
    withUnsafeMutableBytes(of: &address) { bytes in
      _ = bytes.baseAddress.map { getsockname(listener, $0.assumingMemoryBound(to: sockaddr.self), &size) }
    }
    return Int(UInt16(bigEndian: address.sin_port))
  }

  func words(_ words: [String]) throws -> [String] {
    try protocolProgram(script, [place.path, "\(port)"] + words)
  }

  /// Starts the program in background; returns what it prints until it has heard of so many sockets.
  @discardableResult func start(_ words: String..., told: Int) async throws -> [String] {
    _ = try hosted.host.launch(
      self.words(words), name: "app", descriptors: [input.read, output.written, -1])
    accept()
    return try await lines(3 + told)
  }

  func accept() {
    peer = Glibc.accept(listener, nil, nil)
    _ = fcntl(peer, F_SETFD, FD_CLOEXEC)
  }

  func send(_ text: String) { _ = Glibc.send(peer, text, text.utf8.count, Int32(MSG_NOSIGNAL)) }
}

@Suite(.bounded, .enabled(if: Backends.python != nil, "there is no python3")) struct KeptSocketTests {
  // R-VOIP-01, R-VOIP-03, R-VOIP-04, R-LIFE-23
  @Test(arguments: Backends.usable) func aPacketReanimatesAndIsTheProgramsToRead(backend: Backend)
    async throws
  {
    let kept = try Kept(backend)
    #expect(Set(try await kept.start("keep=1", told: 1)).contains("keepAliveBegan 1"))
    #expect(kept.hosted.entry()?.keptSockets == 1)
    #expect(kept.hosted.entry()?.keptBy == [])
    for text in ["hello", "and again"] {
      try await kept.suspend()
      kept.send(text)
      let told = ["didResume", "didReceiveData 1 \(text.utf8.count)", "read \(text)", "willSuspend"]
      #expect(try await kept.lines(4) == told)
      try await kept.isSuspended()
      try kept.hosted.host.resume("app")
      #expect(try await kept.lines(1) == ["didResume"])
    }
    #expect(kept.hosted.entry()?.notes.contains { $0.contains("answer") || $0.contains("refuse") } == false)
    try await kept.hosted.end()
  }

  // R-VOIP-03
  @Test func onlyWhatComesWhileItIsSuspendedIsTold() async throws {
    let kept = try Kept()
    try await kept.start("keep=1", "late", told: 1)
    // Nothing of it is told while it runs; it is there at the suspension, and reanimates it at once.
    kept.send("early")
    #expect(try HostRequest(.warn, name: "app").send(to: kept.place.path, within: .seconds(30)).ok)
    #expect(try await kept.lines(1) == ["didReceiveMemoryWarning"])
    _ = try kept.hosted.host.suspend("app")
    #expect(try await kept.lines(3) == ["willSuspend", "didResume", "didReceiveData 1 5"])
    #expect(kept.hosted.entry()?.state == "background")
    // What comes until it answers is read with it.
    kept.send(" late")
    kept.go()
    #expect(try await kept.lines(2) == ["read early late", "willSuspend"])
    try await kept.isSuspended()
    try await kept.hosted.end()
  }

  @Test func whoReadsNothingIsWokenAfterAPauseEachTime() async throws {
    let kept = try Kept()
    try await kept.start("keep=1", "deaf", told: 1)
    try await kept.suspend()
    let began = ContinuousClock.now
    kept.send("x")
    let told = ["didResume", "didReceiveData 1 1", "willSuspend"]
    #expect(try await kept.lines(9) == told + told + told)
    // The second and third time each after a pause, which counts from the one before.
    #expect(began.duration(to: .now) >= KeptSocket.pause * 2)
    try await kept.hosted.end()
  }

  // R-VOIP-01
  @Test func theEndOfTheStreamIsToldOnceAndLetsGo() async throws {
    let kept = try Kept()
    try await kept.start("keep=1", told: 1)
    try await kept.suspend()
    kept.send("bye")
    shutdown(kept.peer, Int32(SHUT_WR))
    // In one or in two.
    var lines = try await kept.lines(4)
    #expect(lines[1].hasPrefix("didReceiveData 1") && lines[2] == "read bye", "\(lines)")
    if kept.hosted.entry()?.keptSockets != 0 {
      lines = try await kept.lines(4)
      #expect(lines[1] == "didReceiveData 1 0", "\(lines)")
    }
    try await eventually("no socket") { kept.hosted.entry()?.keptSockets == 0 }
    try await kept.isSuspended()
    try await kept.hosted.end()
  }

  // R-LIFE-23
  @Test func whoHasLetGoSleepsOn() async throws {
    let kept = try Kept()
    try await kept.start("keep=1", "go", told: 1)
    try await eventually("no socket") { kept.hosted.entry()?.keptSockets == 0 }
    try await kept.suspend()
    kept.send("unheard")
    // The host has looked since.
    let other = try hostLooks(kept)
    #expect(other == 2)
    #expect(kept.hosted.entry()?.state == "suspended")
    try kept.hosted.host.resume("app")
    #expect(try await kept.lines(1) == ["didResume"])
    try await kept.hosted.end()
  }

  /// Another app comes, which the host's loop has seen when this returns.
  private func hostLooks(_ kept: Kept) throws -> Int? {
    _ = try kept.hosted.shell("exec sleep 600", name: "other")
    return try HostRequest(.apps).send(to: kept.place.path, within: .seconds(30)).apps?.count
  }

  @Test(arguments: [
    ("file", "keepAliveRefused 1 it is no socket and no pipe"),
    ("own", "keepAliveRefused 1 it is a connection to this host"),
    ("pipe", "keepAliveBegan 1"),
  ]) func whatIsNoSocketIsRefused(word: String, told: String) async throws {
    let kept = try Kept()
    let lines = try await kept.start(word, told: 1)
    #expect(lines.contains(told), "\(lines)")
    #expect(kept.hosted.entry()?.keptSockets == (word == "pipe" ? 1 : 0))
    try await kept.suspend()
    try await kept.hosted.end()
  }

  @Test func aSeventeenthIsRefused() async throws {
    let kept = try Kept()
    let lines = try await kept.start("keep=17", told: 17)
    #expect(lines.filter { $0.hasPrefix("keepAliveBegan") }.count == 16, "\(lines)")
    #expect(lines.contains("keepAliveRefused 17 16 sockets of it are kept alive, the most there may be"))
    #expect(kept.hosted.entry()?.keptSockets == 16)
    try await kept.hosted.end()
  }

  @Test(arguments: [
    ("many", "its descriptors could not be taken"), (#"bare={"keepAlive":3}"#, "no descriptor has come"),
    (#"bare={"keepAlive":3,"letGo":3}"#, "none of answer"),
  ]) func whoBreaksTheRulesIsLeft(word: String, reason: String) async throws {
    let kept = try Kept()
    _ = try kept.hosted.host.launch(
      kept.words([word]), name: "app", descriptors: [-1, kept.output.written, -1])
    #expect(try await kept.output.line("over").contains(reason))
    #expect(kept.hosted.entry()?.keptSockets == 0)
    try await kept.hosted.end()
  }

  /// All that the host has of a socket goes with its program.
  @Test func theHostHoldsNoSocketOfAProgramThatHasEnded() async throws {
    let kept = try Kept()
    try await kept.start("keep=2", told: 2)
    try await kept.suspend()
    try kept.hosted.host.terminate("app")
    try await eventually("the end") { kept.hosted.entry() == nil }
    var byte: UInt8 = 0
    #expect(recv(kept.peer, &byte, 1, 0) <= 0)
    try await kept.hosted.end()
  }

  @Test func whoDoesNotAnswerIsSuspendedAgainAndLeft() async throws {
    let kept = try Kept(answerGrace: .seconds(2))
    try await kept.start("keep=1", "late", told: 1)
    try await kept.suspend()
    kept.send("x")
    #expect(try await kept.lines(2) == ["didResume", "didReceiveData 1 1"])
    try await kept.isSuspended()
    let notes = kept.hosted.entry()?.notes ?? []
    #expect(notes.contains { $0.contains("did not answer didReceiveData") }, "\(notes)")
    #expect(kept.hosted.entry()?.keptSockets == 0)
    try await kept.hosted.end()
  }

  /// By a user's word it stays, as any other.
  @Test func whoIsToldToGoOnMeanwhileIsNotSuspended() async throws {
    let kept = try Kept()
    try await kept.start("keep=1", "late", told: 1)
    try await kept.suspend()
    kept.send("x")
    #expect(try await kept.lines(2) == ["didResume", "didReceiveData 1 1"])
    try kept.hosted.host.bringForward("app")
    kept.go()
    let told = ["read x", "willEnterForeground", "didBecomeActive"]
    #expect(try await kept.lines(3) == told)
    #expect(kept.hosted.entry()?.state == "foreground")
    try await kept.hosted.end()
  }

  // R-MAN-01, R-VOIP-01
  @Test(arguments: [true, false]) func aManifestGivesTheMode(hasMode: Bool) async throws {
    let manifests = try ManifestPlace()
    let kept = try Kept(catalog: ManifestCatalog(folders: [manifests.path]))
    let words = try kept.words(["keep=1"])
    let command = ["/bin/sh", "-c", "exec \"$@\" > \"$0\"", kept.place.folder.path + "/out"] + words
    try writeManifest(command, hasMode ? ["UIBackgroundModes": ["voip"]] : [:], in: manifests.path)
    _ = try kept.hosted.host.start("app")
    kept.accept()
    func said(_ text: String) async throws {
      try await eventually(text) {
        (try? String(contentsOfFile: kept.place.folder.path + "/out", encoding: .utf8))?.contains(text)
          == true
      }
    }
    guard hasMode else {
      try await said("keepAliveRefused 1 its manifest has no background mode voip")
      return try await kept.hosted.end()
    }
    // The mode keeps it from suspension only where the host could not wake it.
    try await said("keepAliveBegan 1")
    #expect(kept.hosted.entry()?.keptBy == [])
    _ = try kept.hosted.host.suspend("app")
    try await kept.isSuspended()
    kept.send("hello")
    try await said("read hello")
    try await kept.isSuspended()
    try await kept.hosted.end()
  }
}
