import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// A program that speaks the protocol itself. Of its arguments the first is the socket, the second where it
/// prints to, or nothing; it says the lines of its input. It prints each event, of a message with its
/// payload.
private let script = """
  import json, signal, socket, sys, threading
  if sys.argv[2]: sys.stdout = open(sys.argv[2], "a", buffering=1)
  s = socket.socket(socket.AF_UNIX)
  s.connect(sys.argv[1])
  def say(what): s.sendall(what.encode() + b"\\n")
  say(json.dumps({"request": "join"}))
  stream = s.makefile("r")
  print("joined" if json.loads(stream.readline())["ok"] else "refused", flush=True)
  def pass_on():
      for line in sys.stdin: say(line.strip())
  threading.Thread(target=pass_on, daemon=True).start()
  for line in stream:
      told = json.loads(line)
      words = [told["event"]] + [str(told[key]) for key in ["launch", "origin", "number", "name", "at_ms", "reason"] if key in told]
      if "payload" in told:
          payload = json.loads(told["payload"])
          words += [key + "=" + payload[key] for key in sorted(payload)]
      print(*words, flush=True)
      if "id" in told: say(json.dumps({"answer": told["id"]}))
  while True: signal.pause()
  """

/// The time that a host goes by, moved by hand.
private final class Clock: Sendable {
  private let seconds = Mutex<Double>(1_000_000)
  var now: Double { seconds.withLock { $0 } }
  func advance(by time: Double) { seconds.withLock { $0 += time } }
}

/// The host with its socket and a clock, and a program that schedules.
private final class Scheduling: JoinedHost {
  let clock: Clock
  let fired: Told
  let log: Told
  private let manifests: ManifestPlace

  init(_ backend: Backend = .auto, isClockReal: Bool = false) throws {
    let (clock, fired, log) = (Clock(), Told(), Told())
    (self.clock, self.fired, self.log) = (clock, fired, log)
    manifests = try ManifestPlace()
    let read: @Sendable () -> Double = { clock.now }
    try super.init(
      Hosted(
        backend, catalog: ManifestCatalog(folders: [manifests.path]), log: { log.append($0) },
        notified: { fired.append("\($0.app) \($0.notification.body)") },
        wallClock: isClockReal ? nil : read))
  }

  func start(foreground: Bool = false) async throws {
    let python = try #require(Backends.python)
    _ = try hosted.host.launch(
      [python, "-c", script, place.path, ""], name: "app", foreground: foreground,
      descriptors: [input.read, output.written, -1])
    _ = try await lines(3)
  }

  /// A manifest of such a program, which prints to a file. It schedules what is in another file, once.
  func declare(exits: Bool = false) throws {
    let command = [
      "/bin/sh", "-c", #"(cat "$3" 2>/dev/null; rm -f "$3"; exec sleep 600) | "$0" -c "$1" "$2" "$4""#,
      try #require(Backends.python), script, place.path, place.folder.path + "/said", file,
    ]
    try JSONSerialization.data(withJSONObject: [
      "CFBundleIdentifier": "app", "OpportuneCommand": command, "UIApplicationExitsOnSuspend": exits,
    ]).write(to: URL(filePath: manifests.path + "/app.json"))
  }

  private var file: String { place.folder.path + "/out" }

  func sayAtStart(_ lines: String...) throws {
    try Data((lines.joined(separator: "\n") + "\n").utf8).write(to: place.folder.appending(path: "said"))
  }

  func printed() -> [String] {
    ((try? String(contentsOfFile: file, encoding: .utf8)) ?? "").split(separator: "\n").map(String.init)
  }

  func say(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    _ = write(input.written, bytes, bytes.count)
  }

  /// The host looks at its clock, as it does when that is set.
  func pass(_ time: Double) throws {
    clock.advance(by: time)
    try? hosted.host.endKeeping("app")
  }

  func has(_ state: String) async throws {
    try await eventually(state) { hosted.entry()?.state == state }
  }
}

@Suite(.bounded, .enabled(if: Backends.python != nil, "there is no python3")) struct HostNotificationTests {
  private static let hour = #"{"schedule":1,"name":"tea","body":"ready","action":"Pour","after_ms":3600000}"#
  private static let told = "didReceiveMessage local action=Pour body=ready name=tea"

  // R-MSG-01, R-MSG-02, R-MSG-07, R-MSG-09
  @Test(arguments: Backends.usable) func whoIsSuspendedIsToldAndSuspendedAgain(backend: Backend) async throws
  {
    let told = try Scheduling(backend)
    try await told.start()
    for hibernates in [false, true] {
      told.say(Self.hour)
      let date = Int64((told.clock.now + 3600) * 1000)
      #expect(try await told.lines(1) == ["scheduled 1 \(date)"])
      #expect(told.hosted.entry()?.scheduled == 1)
      _ = try told.hosted.host.suspend("app")
      #expect(try await told.lines(1) == ["willSuspend"])
      try await told.has("suspended")
      if hibernates { _ = try told.hosted.host.hibernate("app") }
      try told.pass(3599)
      #expect(told.hosted.entry()?.state == (hibernates ? "hibernated" : "suspended"))
      #expect(told.hosted.entry()?.scheduled == 1)
      try told.pass(1)
      #expect(try await told.lines(3) == ["didResume", Self.told, "willSuspend"])
      try await told.has("suspended")
      #expect(told.hosted.entry()?.scheduled == 0)
      try told.hosted.host.resume("app")
      #expect(try await told.lines(1) == ["didResume"])
    }
    #expect(told.fired.lines == ["app ready", "app ready"])
    try await told.hosted.end()
  }

  // R-MSG-02, R-MSG-09
  @Test(arguments: [true, false]) func whoRunsIsToldByTheMachinesClock(foreground: Bool) async throws {
    let told = try Scheduling(isClockReal: true)
    try await told.start(foreground: foreground)
    told.say(#"{"schedule":1,"name":"tea","after_ms":20}"#)
    #expect(try await told.lines(1).first?.hasPrefix("scheduled 1 ") == true)
    #expect(try await told.lines(1) == ["didReceiveMessage local body= name=tea"])
    #expect(told.hosted.entry()?.state == (foreground ? "foreground" : "background"))
    // One that is past fires at once.
    told.say(#"{"schedule":2,"name":"late","at_ms":1000}"#)
    #expect(try await told.lines(2) == ["scheduled 2 1000", "didReceiveMessage local body= name=late"])
    try await told.hosted.end()
  }

  // R-MSG-04, R-MSG-09
  @Test func whoHasEndedIsStartedForIt() async throws {
    let told = try Scheduling()
    try told.declare()
    try told.sayAtStart(Self.hour)
    try told.hosted.host.start("app")
    try await eventually("the answer") { told.printed().count == 4 }
    try told.hosted.host.terminate("app")
    try await eventually("its end") { told.hosted.entry() == nil }
    #expect(told.hosted.host.known().first?.scheduled == 1)
    try told.pass(3599)
    #expect(told.hosted.entry() == nil)
    let before = told.printed()
    try told.pass(1)
    #expect(told.hosted.entry()?.state == "background")
    try await told.has("suspended")
    #expect(
      told.printed().dropFirst(before.count) == [
        "joined", "didFinishLaunching message", "didEnterBackground", Self.told, "willSuspend",
      ])
    #expect(told.log.lines.isEmpty, "\(told.log.lines)")
    try await told.hosted.end()
  }

  /// What nobody could start anew is not kept for ever.
  // R-MSG-09
  @Test func whoHasNoManifestIsForgottenWithItsEnd() async throws {
    let told = try Scheduling()
    try await told.start()
    told.say(Self.hour)
    _ = try await told.lines(1)
    for pid in told.hosted.entry()?.pids ?? [] { kill(pid, SIGKILL) }
    try await eventually("its end") { told.hosted.entry() == nil }
    try told.pass(3600)
    #expect(told.fired.lines.isEmpty && told.hosted.entry() == nil)
    try await told.hosted.end()
  }

  /// It has a manifest by which it cannot be started: that is said, and the user sees the notification.
  // R-MSG-09
  @Test func whoCannotBeStartedIsToldOfInTheLog() async throws {
    let told = try Scheduling()
    try told.declare(exits: true)
    try told.sayAtStart(Self.hour)
    try told.hosted.host.start("app")
    try await eventually("the answer") { told.printed().count == 4 }
    try told.hosted.host.terminate("app")
    try await eventually("its end") { told.hosted.entry() == nil }
    try told.pass(3600)
    #expect(told.hosted.entry() == nil && told.fired.lines == ["app ready"])
    #expect(told.log.lines.count == 1, "\(told.log.lines)")
    #expect(told.log.lines.first?.contains("notification 'tea' was not told") == true)
    #expect(told.log.lines.first?.contains("no place in background") == true)
    try await told.hosted.end()
  }

  /// It has left the host, and nobody of it would hear.
  // R-MSG-09
  @Test func whoHasLeftIsToldOfInItsNotes() async throws {
    let told = try Scheduling()
    try await told.start()
    told.say(Self.hour)
    _ = try await told.lines(1)
    told.say("nonsense")
    #expect(try await told.lines(1).first?.hasPrefix("left ") == true)
    #expect(told.hosted.entry()?.scheduled == 1)
    try told.pass(3600)
    let notes = told.hosted.entry()?.notes ?? []
    #expect(notes.contains { $0.hasPrefix("its notification 'tea' was not told: ") }, "\(notes)")
    #expect(notes.contains { $0.contains("no process of it has joined") }, "\(notes)")
    #expect(told.fired.lines == ["app ready"])
    try told.hosted.host.terminate("app")
    try await eventually("its end") { told.hosted.entry() == nil }
    try await told.hosted.end()
  }

  // R-MSG-10
  @Test func theyAreListedReplacedAndCancelled() async throws {
    let told = try Scheduling()
    try await told.start()
    told.say(#"{"schedule":1,"name":"b","after_ms":2000,"repeats":"daily"}"#)
    told.say(#"{"schedule":2,"name":"a","after_ms":1000}"#)
    told.say(#"{"schedule":3,"name":"c","after_ms":3000}"#)
    #expect(try await told.lines(3).count == 3)
    told.say(#"{"pending":4}"#)
    let zero = Int64(told.clock.now * 1000)
    #expect(
      try await told.lines(4) == [
        "pending 4 a \(zero + 1000)", "pending 4 b \(zero + 2000)", "pending 4 c \(zero + 3000)",
        "pendingEnd 4",
      ])
    told.say(#"{"schedule":5,"name":"a","after_ms":4000}"#)
    told.say(#"{"cancel":"c"}"#)
    told.say(#"{"cancel":"nobody"}"#)
    told.say(#"{"pending":6}"#)
    #expect(
      try await told.lines(4) == [
        "scheduled 5 \(zero + 4000)", "pending 6 b \(zero + 2000)", "pending 6 a \(zero + 4000)",
        "pendingEnd 6",
      ])
    try told.pass(2)
    #expect(try await told.lines(1) == ["didReceiveMessage local body= name=b"])
    told.say(#"{"cancel":"a"}"#)
    told.say(#"{"pending":7}"#)
    #expect(try await told.lines(2) == ["pending 7 b \(zero + 86_402_000)", "pendingEnd 7"])
    told.say(#"{"cancelAll":true}"#)
    told.say(#"{"pending":8}"#)
    #expect(try await told.lines(1) == ["pendingEnd 8"])
    try told.pass(200_000)
    #expect(told.fired.lines == ["app "])
    try await told.hosted.end()
  }

  @Test func whatIsWrongIsRefusedByItsValue() async throws {
    let told = try Scheduling()
    try await told.start()
    for (said, refused) in [
      (#""name":"","after_ms":1"#, "the name of the notification is 0 bytes long: expected 1 to 64 bytes"),
      (#""name":"a""#, "the time of the notification is missing: expected at_ms or after_ms"),
      (#""name":"a","at_ms":1,"after_ms":1"#, "the time of the notification is there twice"),
      (#""name":"a","after_ms":-7"#, "after_ms of the notification is -7: expected 0 or more"),
      (#""name":"a","at_ms":9000000000000000"#, "the date of the notification is "),
      (#""name":"a","after_ms":1,"repeats":"yearly""#, "is 'yearly': expected one of never, daily, weekly"),
      (
        #""name":"a","after_ms":1,"body":"\#(String(repeating: "x", count: 3200))""#,
        "the payload of the message is "
      ),
    ] {
      told.say(#"{"schedule":9,\#(said)}"#)
      let line = try await told.lines(1).first ?? ""
      #expect(line.hasPrefix("scheduleRefused 9 ") && line.contains(refused), "\(line)")
    }
    for number in 1...NotificationLedger.most {
      told.say(#"{"schedule":\#(number),"name":"n\#(number)","after_ms":1000}"#)
    }
    _ = try await told.lines(NotificationLedger.most)
    told.say(#"{"schedule":99,"name":"more","after_ms":1000}"#)
    let most = "64 notifications of it are to fire, the most there may be"
    #expect(try await told.lines(1) == ["scheduleRefused 99 app 'app': \(most)"])
    // In place of one of them.
    told.say(#"{"schedule":100,"name":"n1","after_ms":2000}"#)
    #expect(try await told.lines(1).first?.hasPrefix("scheduled 100 ") == true)
    // More than may wait as messages: all are told, one after another.
    try told.pass(1)
    let lines = try await told.lines(NotificationLedger.most - 1)
    #expect(Set(lines).count == lines.count && lines.allSatisfy { $0.hasPrefix("didReceiveMessage local") })
    try await told.hosted.end()
  }

  // MARK: The ledger, without a host

  // R-MSG-09, R-MSG-10
  @Test func repeatsKeepTheirLocalTimeAndAreToldOnceAfterALongSleep() throws {
    var ledger = NotificationLedger()
    // 2026-03-28 08:00 in Berlin, the day before summer time begins.
    let first = 1_774_681_200.0
    let notification = LocalNotification(
      fireDate: .instant(first), timeZone: "Europe/Berlin", repeats: .daily, body: "wake")
    #expect(try ledger.schedule(notification, as: "a", of: "x", wall: first - 10) == first)
    #expect(ledger.fire(wall: first - 1).isEmpty && ledger.next == first)
    #expect(ledger.fire(wall: first).map(\.name) == ["a"] && ledger.next == first + 82_800)
    // Not told for ten days.
    #expect(ledger.fire(wall: first + 864_000).count == 1 && ledger.due.count == 1)
    #expect(ledger.take("y") == nil && ledger.take("x")?.name == "a" && ledger.take("x") == nil)
    // A clock that is set back delays nothing twice.
    #expect(ledger.fire(wall: first).isEmpty && ledger.pending(of: "x").count == 1)
  }

  // R-MSG-10
  @Test func theyFireInTheOrderOfTheirTimesAndACancelledOneIsNotTold() throws {
    var ledger = NotificationLedger()
    for (name, app, date) in [("c", "x", 3.0), ("a", "y", 1), ("b", "x", 2)] {
      _ = try ledger.schedule(
        LocalNotification(fireDate: .instant(date), body: ""), as: name, of: app, wall: 0)
    }
    #expect(ledger.fire(wall: 10).map(\.name) == ["a", "b", "c"] && ledger.next == nil)
    ledger.cancel("b", of: "x")
    ledger.cancel("c", of: "y")
    #expect(ledger.due.map(\.name) == ["a", "c"])
    ledger.cancel(nil, of: "y")
    #expect(ledger.take("x")?.name == "c" && ledger.due.isEmpty)
  }
}
