import Foundation
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// A program that speaks the protocol itself. It prints each event, of a message with kind and payload.
/// Arguments: the socket of the host, or `alone`: it does not join; then `hold`: it answers a message when a
/// line has come; `slow=EVENT`: the same of that event, once; `reply=TEXT`: with that; `task`: it begins a
/// background task before it answers one; `out=FILE`: it prints there.
private let script = """
  if value("out"): sys.stdout = open(value("out"), "w", buffering=1)
  if words[0] == "alone":
      print("alone", flush=True)
      while True: signal.pause()
  print(join(words[0]), flush=True)
  for told in events():
      event = told["event"]
      if event == "didReceiveMessage":
          payload = json.loads(told["payload"])
          print(event, told["kind"], *(key + "=" + payload[key] for key in sorted(payload)), flush=True)
          if "task" in words: say({"begin": 1, "name": "an upload"})
          if "hold" in words: sys.stdin.readline()
          answer = {"answer": told["id"]}
          if value("reply"): answer["reply"] = value("reply")
          say(answer)
          continue
      print(event, *([told["launch"]] if "launch" in told else []), flush=True)
      if "slow=" + event in words:
          words.remove("slow=" + event)
          sys.stdin.readline()
      if "id" in told: say({"answer": told["id"]})
  """

/// The host with its socket, and what such a program prints.
private final class Notified: JoinedHost {
  init(
    _ backend: Backend = .auto, catalog: ManifestCatalog = ManifestCatalog(),
    answerGrace: Duration = .seconds(60), joinLimit: Duration = .seconds(60)
  ) throws {
    try super.init(
      Hosted(backend, catalog: catalog, answerGrace: answerGrace, joinLimit: joinLimit))
  }

  func start(_ words: String..., foreground: Bool = false) async throws {
    _ = try hosted.host.launch(
      protocolProgram(script, [place.path] + words), name: "app", foreground: foreground,
      descriptors: [input.read, output.written, -1])
    let launched = try await lines(3)
    #expect(launched[1] == "didFinishLaunching user")
  }

  func ask(_ request: HostRequest) throws -> HostAnswer {
    try request.send(to: place.path, within: .seconds(60))
  }

  @discardableResult func notify(
    _ kind: String = "letter", _ payload: [String: String] = ["from": "ada"]
  ) throws -> HostAnswer {
    var request = HostRequest(.notify, name: "app")
    (request.kind, request.payload) = (kind, payload)
    return try ask(request)
  }

  /// Asks until the program has answered.
  func reply(to sent: HostAnswer) async throws -> HostAnswer {
    var request = HostRequest(.notify, name: "app")
    (request.message, request.again) = (sent.message, true)
    var answer = sent
    try await eventually("an answer") {
      answer = try ask(request)
      return answer.wait == nil
    }
    return answer
  }

  func refusal(_ kind: String = "letter", _ payload: [String: String] = [:]) -> String? {
    #expect(throws: PushError.self) { try notify(kind, payload) }?.message
  }
}

@Suite(.bounded, .enabled(if: Backends.python != nil, "there is no python3")) struct HostMessageTests {
  private static let letter = "didReceiveMessage letter from=ada"

  // R-MSG-01, R-MSG-02, R-MSG-03, R-MSG-07
  @Test(arguments: Backends.usable) func whoIsSuspendedIsReanimatedAndSuspendedAgain(backend: Backend)
    async throws
  {
    let told = try Notified(backend)
    try await told.start("hold", "reply=read")
    for hibernates in [false, true] {
      try await told.suspend()
      if hibernates { _ = try told.hosted.host.hibernate("app") }
      #expect(told.hosted.entry()?.state == (hibernates ? "hibernated" : "suspended"))
      let sent = try told.notify()
      #expect(try await told.lines(2) == ["didResume", Self.letter])
      #expect(told.hosted.entry()?.state == "background")
      told.go()
      #expect(try await told.reply(to: sent).reply == "read")
      #expect(try await told.lines(1) == ["willSuspend"])
      try await told.isSuspended()
      try told.hosted.host.resume("app")
      #expect(try await told.lines(1) == ["didResume"])
    }
    #expect(told.hosted.entry()?.notes.contains { $0.contains("answer") } == false)
    try await told.hosted.end()
  }

  // R-MSG-01, R-MSG-03
  @Test(arguments: [true, false]) func whoRunsIsToldAndStaysWhereItIs(foreground: Bool) async throws {
    let told = try Notified()
    try await told.start("hold", foreground: foreground)
    let sent = try told.notify("letter", ["from": "ada", "subject": "\"ä\n\""])
    #expect(try await told.lines(2) == [Self.letter + " subject=\"ä", "\""])
    var request = HostRequest(.notify, name: "app")
    (request.message, request.again) = (sent.message, true)
    #expect(try told.ask(request).wait != nil)
    told.go()
    #expect(try await told.reply(to: sent).reply == nil)
    // The host has looked at the answer, and at what follows from it.
    #expect(told.hosted.entry()?.state == (foreground ? "foreground" : "background"))
    _ = try told.hosted.host.suspend("app")
    let last = foreground ? ["willResignActive", "didEnterBackground"] : []
    #expect(try await told.lines(last.count + 1) == last + ["willSuspend"])
    try await told.hosted.end()
  }

  // R-MSG-07, R-TASK-01
  @Test func aBackgroundTaskKeepsItFromBeingSuspendedAgain() async throws {
    let told = try Notified()
    try await told.start("task")
    try await told.suspend()
    let sent = try told.notify()
    #expect(Set(try await told.lines(3)) == ["didResume", Self.letter, "taskBegan"])
    _ = try await told.reply(to: sent)
    #expect(told.hosted.entry()?.state == "background")
    #expect(told.hosted.entry()?.keptBy == ["background task: an upload"])
    try await told.hosted.end()
  }

  /// Who has heard that it stops hears that it does not, and once more that it does after the message.
  // R-MSG-01, R-MSG-03
  @Test func whoIsAboutToStopGoesOnForIt() async throws {
    let told = try Notified()
    try await told.start("slow=willSuspend")
    _ = try told.hosted.host.suspend("app")
    #expect(try await told.lines(1) == ["willSuspend"])
    try told.notify()
    told.go()
    #expect(try await told.lines(3) == ["didResume", Self.letter, "willSuspend"])
    try await told.isSuspended()
    try await told.hosted.end()
  }

  /// By a user's word it stays, as any other.
  // R-MSG-07
  @Test func whoIsBroughtForwardMeanwhileIsNotSuspended() async throws {
    let told = try Notified()
    try await told.start("hold")
    try await told.suspend()
    let sent = try told.notify()
    #expect(try await told.lines(2) == ["didResume", Self.letter])
    try told.hosted.host.bringForward("app")
    told.go()
    #expect(try await told.lines(2) == ["willEnterForeground", "didBecomeActive"])
    _ = try await told.reply(to: sent)
    #expect(told.hosted.entry()?.state == "foreground")
    try await told.hosted.end()
  }

  // R-MSG-01
  @Test func whoIsBeingSuspendedIsToldBefore() async throws {
    let told = try Notified()
    try await told.start("hold")
    try told.notify("first")
    #expect(try await told.lines(1) == ["didReceiveMessage first from=ada"])
    #expect(try told.hosted.host.suspend("app")?.reason == "it has not answered didReceiveMessage yet")
    try told.notify("second")
    told.go()
    #expect(try await told.lines(1) == ["didReceiveMessage second from=ada"])
    #expect(told.hosted.entry()?.state == "background")
    told.go()
    #expect(try await told.lines(1) == ["willSuspend"])
    try await told.isSuspended()
    try await told.hosted.end()
  }

  // R-MSG-01
  @Test func whatNobodyWouldHearIsRefused() async throws {
    let told = try Notified()
    #expect(told.refusal()?.contains("there is no app 'app'") == true)
    _ = try told.hosted.shell("exec sleep 600")
    #expect(told.refusal()?.contains("app 'app': no process of it has joined, so nobody would hear") == true)
    var request = HostRequest(.notify, name: "app")
    #expect(throws: PushError.self) { try told.ask(request) }
    (request.again, request.message) = (true, 1)
    #expect(throws: PushError.self) { try told.ask(request) }
    try await told.hosted.end()
  }

  // R-MSG-01
  @Test func lengthAndNumberAreBounded() async throws {
    let told = try Notified()
    try await told.start("hold")
    #expect(told.refusal("")?.contains("the kind of the message is 0 bytes long") == true)
    #expect(told.refusal(String(repeating: "k", count: 101))?.contains("101 bytes long") == true)
    // Quotes take six bytes each.
    let most = MessageLedger.longestPayload - #""{\"text\":\"\"}""#.utf8.count
    #expect(
      told.refusal("letter", ["text": String(repeating: "x", count: most + 1)])?.contains("3073") == true)
    try told.notify("letter", ["text": String(repeating: "x", count: most)])
    for _ in 1..<MessageLedger.mostWaiting { try told.notify("letter", [:]) }
    #expect(told.refusal()?.contains("8 messages wait for its answer, the most there may be") == true)
    #expect(try await told.lines(1).first?.hasPrefix("didReceiveMessage letter text=xxx") == true)
    told.go()
    #expect(try await told.lines(1) == ["didReceiveMessage letter"])
    try told.notify()
    // It would be asked, and wait for more lines.
    for pid in told.hosted.entry()?.pids ?? [] { kill(pid, SIGKILL) }
    try await told.hosted.end()
  }

  // R-MSG-01
  @Test func theSenderHearsThatTheAppHasEnded() async throws {
    let told = try Notified()
    try await told.start("hold")
    let sent = try told.notify()
    for pid in told.hosted.entry()?.pids ?? [] { kill(pid, SIGKILL) }
    let error = try #require(await #expect(throws: PushError.self) { _ = try await told.reply(to: sent) })
    #expect(error.message.contains("message 1 was not answered: "), "\(error)")
    try await told.hosted.end()
  }

  /// What waits when the program goes is told to who asks.
  // R-MSG-01
  @Test func theSenderHearsThatNobodyHasAnswered() async throws {
    let told = try Notified(answerGrace: .seconds(2))
    try await told.start("hold")
    let sent = try told.notify()
    let error = try #require(await #expect(throws: PushError.self) { _ = try await told.reply(to: sent) })
    #expect(error.message.contains("message 1 was not answered: it did not answer didReceiveMessage"))
    try await told.hosted.end()
  }

  /// A push as hosts of apps inside a program take it.
  // R-MSG-02
  @Test func theCommandReachesPrograms() async throws {
    let told = try Notified()
    try await told.start("reply=thank you")
    try Push(app: "app", kind: "letter", payload: ["from": "ada"]).send(
      to: told.place.path, within: .seconds(60))
    #expect(try await told.lines(1) == [Self.letter])
    let (status, printed, _) = try outcome(of: [
      command().path, "notify", "--socket", told.place.path, "app", "letter", "--payload", "from=ada",
      "--reply", "--timeout", "60",
    ])
    #expect(status == 0 && printed == "thank you\n")
    #expect(try await told.lines(1) == [Self.letter])
    let refused = #expect(throws: PushError.self) {
      try Push(app: "nobody", kind: "letter").send(to: told.place.path, within: .seconds(60))
    }
    #expect(refused?.message.contains("there is no app 'nobody'") == true)
    try await told.hosted.end()
  }

  /// An app with a manifest, whose program prints to a file.
  private struct Declared {
    let told: Notified
    private let manifests: ManifestPlace
    private let file: String

    init(joins: Bool = true, exits: Bool = false, joinLimit: Duration = .seconds(60), _ words: String...)
      throws
    {
      manifests = try ManifestPlace()
      told = try Notified(catalog: ManifestCatalog(folders: [manifests.path]), joinLimit: joinLimit)
      file = told.place.folder.path + "/out"
      let command = try protocolProgram(script, [joins ? told.place.path : "alone", "out=" + file] + words)
      try writeManifest(command, ["UIApplicationExitsOnSuspend": exits], in: manifests.path)
    }

    func printed() -> [String] {
      ((try? String(contentsOfFile: file, encoding: .utf8)) ?? "").split(separator: "\n").map(String.init)
    }
  }

  // R-MSG-04, R-MSG-07, R-LIFE-09
  @Test func whoDoesNotRunIsStartedInBackgroundForIt() async throws {
    let declared = try Declared("reply=read")
    let told = declared.told
    let sent = try told.notify()
    // A second one that comes before the program has joined waits with it, or is told as others.
    let second = try told.notify("second", [:])
    #expect(try await told.reply(to: sent).reply == "read")
    #expect(try await told.reply(to: second).reply == "read")
    try await told.isSuspended()
    let lines = declared.printed()
    #expect(
      lines.starts(with: ["joined", "didFinishLaunching message", "didEnterBackground", Self.letter]),
      "\(lines)")
    #expect(lines.filter { $0.hasPrefix("didReceiveMessage") }.count == 2 && lines.last == "willSuspend")
    try await told.hosted.end()
  }

  // R-MSG-04
  @Test func whoIsStartedAndDoesNotJoinIsToldOf() async throws {
    let declared = try Declared(joins: false, joinLimit: .seconds(2))
    let told = declared.told
    let sent = try told.notify()
    let error = try #require(await #expect(throws: PushError.self) { _ = try await told.reply(to: sent) })
    #expect(error.message.contains("no process of it has joined within 2"), "\(error)")
    #expect(told.hosted.entry()?.notes.contains { $0.contains("started for a message") } == true)
    #expect(told.refusal()?.contains("nobody would hear") == true)
    try await told.hosted.end()
  }

  // R-MSG-04
  @Test func whoHasNoPlaceInBackgroundIsNotStarted() async throws {
    let declared = try Declared(exits: true)
    #expect(declared.told.refusal()?.contains("no place in background") == true)
    #expect(declared.told.hosted.entry() == nil)
    try await declared.told.hosted.end()
  }
}
