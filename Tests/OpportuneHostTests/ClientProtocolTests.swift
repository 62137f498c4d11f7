import COpportuneHost
import Foundation
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// A program that speaks the protocol of the socket itself. It prints each event, and `joined` or `refused`
/// before. Arguments: the socket; then `hold`: it answers a question when a line of its input is there;
/// `silent=EVENT`: it never answers that; `die=EVENT`: it ends there; `tasks=N`: it begins so many;
/// `say=LINE`: it says that once it has joined.
private let script = """
  print(join(words[0]), flush=True)
  for task in range(int(value("tasks") or 0)): say({"begin": task + 1, "name": "upload %d" % (task + 1)})
  if value("say"): say(value("say"))
  for told in events():
      print(told["event"], told.get("task", ""), told.get("reason", ""), flush=True)
      if told["event"] == value("die"): os._exit(3)
      if "id" not in told or told["event"] == value("silent"): continue
      if "hold" in words and not told["event"].startswith("didFinish"): sys.stdin.readline()
      say({"answer": told["id"]})
  print("over", flush=True)
  while True: signal.pause()
  """

/// The host with its socket, and what programs print.
private final class Joined: JoinedHost {
  init(
    _ backend: Backend, answerGrace: Duration = .seconds(60), taskLimit: Duration = .seconds(60),
    pressure: MemoryPressure? = nil
  ) throws {
    try super.init(Hosted(backend, answerGrace: answerGrace, taskLimit: taskLimit, pressure: pressure))
  }

  @discardableResult func start(
    _ words: String..., name: String = "app", foreground: Bool = false, before: [String] = []
  ) throws -> Int32 {
    try hosted.host.launch(
      before + protocolProgram(script, [place.path] + words), name: name, foreground: foreground,
      descriptors: [input.read, output.written, -1])
  }
}

@Suite(.bounded, .enabled(if: Backends.python != nil, "there is no python3")) struct ClientProtocolTests {
  // R-LIFE-11, R-LIFE-12, R-LIFE-14
  @Test(arguments: Backends.usable) func callbacksComeInOrderAndSuspensionWaits(backend: Backend) async throws
  {
    let joined = try Joined(backend)
    let hosted = joined.hosted
    let pid = try joined.start("hold", foreground: true)
    #expect(try await joined.lines(3) == ["joined", "didFinishLaunching", "didBecomeActive"])
    joined.go()
    #expect(try hosted.host.suspend("app") != nil)
    for event in ["willResignActive", "didEnterBackground", "willSuspend"] {
      #expect(try await joined.lines(1) == [event])
      #expect(hosted.entry()?.state == "background")
      let wait = try hosted.host.suspend("app", isAgain: true)
      #expect(wait?.reason == "it has not answered \(event) yet")
      joined.go()
    }
    try await joined.isSuspended()
    #expect(try hosted.host.suspend("app", isAgain: true) == nil)
    #expect(hosted.entry()?.notes == [])
    try hosted.host.bringForward("app")
    for event in ["didResume", "willEnterForeground", "didBecomeActive"] {
      #expect(try await joined.lines(1) == [event])
      joined.go()
    }
    #expect(hosted.entry()?.pids == [pid])
    try hosted.host.terminate("app")
    for event in ["willResignActive", "willTerminate"] {
      #expect(try await joined.lines(1) == [event])
      #expect(hosted.entry()?.pids == [pid])
      joined.go()
    }
    try await eventually("the end") { hosted.entry() == nil }
    try await hosted.end()
  }

  // R-LIFE-11
  @Test func whoLeavesTheFrontIsLoweredWhenItHasAnswered() async throws {
    func isLowered(_ pid: Int32) -> Bool {
      var found: Int32 = 0
      return opp_host_io_class_get(pid, &found) == 0 && found == opp_host_io_class_idle()
    }
    let joined = try Joined(.auto)
    let hosted = joined.hosted
    let pid = try joined.start("hold", foreground: true)
    _ = try await joined.lines(3)
    joined.go()
    _ = try hosted.shell("exec sleep 600", name: "other")
    try hosted.host.bringForward("other")
    // The other does not wait for it.
    #expect(hosted.entry("other")?.state == "foreground")
    for event in ["willResignActive", "didEnterBackground"] {
      #expect(try await joined.lines(1) == [event])
      #expect(!isLowered(pid))
      joined.go()
    }
    try await eventually("its class") { isLowered(pid) }
    kill(pid, SIGKILL)  // it would be asked, and wait for another line
    try await hosted.end()
  }

  @Test(arguments: Backends.usable) func whoNeverAnswersIsStoppedAfterItsGrace(backend: Backend) async throws
  {
    // The callbacks that it does answer have as long, also beside others that fill the machine.
    let joined = try Joined(backend, answerGrace: .seconds(2))
    let hosted = joined.hosted
    try joined.start("silent=didEnterBackground", foreground: true)
    #expect(try await joined.lines(3) == ["joined", "didFinishLaunching", "didBecomeActive"])
    #expect(try hosted.host.suspend("app") != nil)
    try await joined.isSuspended()
    let notes = hosted.entry()?.notes ?? []
    #expect(notes.contains { $0.contains("did not answer didEnterBackground") }, "\(notes)")
    #expect(try await joined.lines(2) == ["willResignActive", "didEnterBackground"])
    // From now on it is as others are.
    try hosted.host.resume("app")
    #expect(try await joined.lines(2).last == "over")
    #expect(try hosted.host.suspend("app") == nil)
    #expect(hosted.entry()?.state == "suspended")
    try await hosted.end()
  }

  @Test func whoNeverAnswersTheLastIsTerminatedAllTheSame() async throws {
    let joined = try Joined(.auto, answerGrace: .seconds(2))
    try joined.start("silent=willTerminate")
    #expect(try await joined.lines(3) == ["joined", "didFinishLaunching", "didEnterBackground"])
    try joined.hosted.host.terminate("app")
    #expect(try await joined.lines(1) == ["willTerminate"])
    try await eventually("the end") { joined.hosted.entry() == nil }
    try await joined.hosted.end()
  }

  @Test(arguments: Backends.usable) func whoDiesInACallbackHarmsNobody(backend: Backend) async throws {
    let joined = try Joined(backend)
    let hosted = joined.hosted
    let other = try hosted.shell("exec sleep 600", name: "other")
    // A shell stays of the app when its child has ended.
    _ = try hosted.host.launch(
      ["/bin/sh", "-c", "\"$@\"; exec sleep 600", "sh"]
        + protocolProgram(script, [joined.place.path, "die=willResignActive"]), name: "app", foreground: true,
      descriptors: [joined.input.read, joined.output.written, -1])
    #expect(try await joined.lines(3) == ["joined", "didFinishLaunching", "didBecomeActive"])
    _ = try hosted.host.suspend("app")
    try await joined.isSuspended()
    #expect(hosted.entry("other")?.pids == [other])
    #expect(hosted.entry("other")?.state == "background")
    // And one whose only process ends there.
    try joined.start("die=willTerminate", name: "last")
    _ = try await joined.lines(4)
    try hosted.host.terminate("last")
    try await eventually("the end") { hosted.entry("last") == nil }
    #expect(try HostRequest(.apps).send(to: joined.place.path, within: .seconds(30)).apps?.count == 2)
    try await hosted.end()
  }

  // R-TASK-01
  @Test func tasksHoldSuspension() async throws {
    let joined = try Joined(.auto)
    let hosted = joined.hosted
    try joined.start("tasks=2")
    let first = try await joined.lines(5)
    #expect(first[0] == "joined" && Set(first).isSuperset(of: ["taskBegan 1", "taskBegan 2"]), "\(first)")
    #expect(hosted.entry()?.keptBy.filter { $0.contains("upload") }.count == 2)
    // It prints a question before it answers.
    try await eventually("its answers") {
      try hosted.host.suspend("app")?.reason.contains("'upload 1', 'upload 2'") == true
    }
    #expect(hosted.entry()?.state == "background")
    try await hosted.end()
  }

  // R-TASK-01
  @Test func tasksHoldSuspensionUpToALimit() async throws {
    let joined = try Joined(.auto, taskLimit: .milliseconds(500))
    let hosted = joined.hosted
    // In front, where no limit runs yet.
    try joined.start("tasks=2", foreground: true)
    #expect(Set(try await joined.lines(5)).isSuperset(of: ["taskBegan 1", "taskBegan 2"]))
    _ = try hosted.host.suspend("app")
    let told = ["willResignActive", "didEnterBackground", "taskExpires 1", "taskExpires 2", "willSuspend"]
    #expect(try await joined.lines(5) == told)
    try await joined.isSuspended()
    try await hosted.end()
  }

  @Test func aTaskThatEndsLetsTheAppStop() async throws {
    let joined = try Joined(.auto)
    try joined.start(#"say={"begin":7,"name":"x"}"# + "\n" + #"{"end":7}"#)
    #expect(Set(try await joined.lines(4)).contains("taskBegan 7"))
    try await eventually("no task") { joined.hosted.entry()?.keptBy == [] }
    try await joined.suspend()
    try await joined.hosted.end()
  }

  @Test func aSuspensionThatIsTakenBackIsTold() async throws {
    let joined = try Joined(.auto)
    let hosted = joined.hosted
    let pid = try joined.start("hold")
    _ = try await joined.lines(3)
    joined.go()
    _ = try hosted.host.suspend("app")
    #expect(try await joined.lines(1) == ["willSuspend"])
    try hosted.host.resume("app")
    joined.go()
    #expect(try await joined.lines(1) == ["didResume"])
    joined.go()
    #expect(hosted.entry()?.state == "background")
    #expect(try HostRequest(.warn, name: "app").send(to: joined.place.path, within: .seconds(30)).ok)
    #expect(try await joined.lines(1) == ["didReceiveMemoryWarning"])
    joined.go()
    kill(pid, SIGKILL)  // it would be asked, and wait for another line
    try await hosted.end()
  }

  @Test func whoRunsIsWarnedWhenMemoryIsShort() async throws {
    let pressure = try Output()
    let joined = try Joined(.auto, pressure: MemoryPressure(stream: dup(pressure.read)))
    try joined.start("hold")
    _ = try await joined.lines(3)
    // Told once for what comes until it has answered.
    for _ in 0..<3 {
      _ = write(pressure.written, "!", 1)
      try await eventually("what was read") { !pressure.comes(within: 0) }
    }
    joined.go()
    #expect(try await joined.lines(1) == ["didReceiveMemoryWarning"])
    joined.go()
    let warn = HostRequest(.warn, name: "app")
    #expect(try warn.send(to: joined.place.path, within: .seconds(30)).ok)
    #expect(try await joined.lines(1) == ["didReceiveMemoryWarning"])
    joined.go()
    _ = try joined.hosted.host.suspend("app")
    #expect(try await joined.lines(1) == ["willSuspend"])
    joined.go()
    try await joined.isSuspended()
    #expect(throws: PushError.self) { try warn.send(to: joined.place.path, within: .seconds(30)) }
    try await joined.hosted.end()
  }

  /// Of the kernel: skipped aloud where it has none.
  @Test func theKernelTakesTheTrigger() throws {
    guard SystemFile.exists("/proc/pressure/memory") else {
      print("skipped: this kernel has no /proc/pressure/memory")
      return
    }
    let pressure = try MemoryPressure()
    var polled = pollfd(fd: pressure.descriptor, events: pressure.events, revents: 0)
    #expect(poll(&polled, 1, 0) >= 0 && polled.revents & Int16(POLLERR) == 0)
    #expect(throws: ProcessHostError.self) { try MemoryPressure(path: "/nowhere/at/all") }
  }

  @Test func processesOfNoAppAndSecondOnesAreRefused() async throws {
    let joined = try Joined(.auto)
    let answer = try LocalSocket.ask(
      Data(#"{"request":"join"}"#.utf8), at: joined.place.path, within: .seconds(30))
    #expect(answer.contains("\"ok\":false") && answer.contains("it belongs to no app"))
    try joined.start()
    _ = try await joined.lines(3)
    _ = try joined.hosted.host.launch(
      ["/bin/sh", "-c", "\"$@\" & \"$@\"; wait", "sh"] + protocolProgram(script, [joined.place.path]),
      name: "two", descriptors: [joined.input.read, joined.output.written, -1])
    // One of the two joins and hears of two callbacks; the other is refused, and its stream goes on as that
    // of a client that asks.
    let lines = try await joined.lines(4)
    #expect(lines.filter { $0 == "joined" }.count == 1, "\(lines)")
    #expect(lines.contains { $0.hasPrefix("refused") && $0.contains("has joined") }, "\(lines)")
    #expect(throws: PushError.self) {
      try HostRequest(.warn, name: "none").send(to: joined.place.path, within: .seconds(30))
    }
    try await joined.hosted.end()
  }

  @Test(arguments: [
    ("nonsense", "none of answer"), (#"{"answer":4711}"#, "was not asked"), (#"{"answer":-1}"#, "none of"),
    (#"{"begin":1,"end":1}"#, "none of"), (String(repeating: "x", count: 6000), "longer than"),
    (Array(repeating: #"{"end":1}"#, count: 2000).joined(separator: "\n"), "lines in a second"),
  ]) func whoBreaksTheRulesIsLeft(line: String, reason: String) async throws {
    let joined = try Joined(.auto)
    try joined.start("say=" + line, "silent=didFinishLaunching")
    var left: String?
    var lines: [String] = []
    while left == nil, lines.count < 6 {
      lines += try await joined.lines(1)
      left = lines.first { $0.hasPrefix("left") }
    }
    #expect(left?.contains(reason) == true, "\(lines)")
    #expect(try joined.hosted.host.suspend("app") == nil)
    try await joined.hosted.end()
  }
}
