import Foundation
import TestSupport
import Testing

@testable import OpportuneApps
@testable import OpportuneHost

/// The host's core over made-up programs, in virtual time.
@Suite(.bounded) struct VirtualProgramsTests {
  private func host() throws -> VirtualPrograms {
    let host = try VirtualPrograms(ManifestCatalog(), states: nil)
    try host.ask(.run(foreground: false), of: "tool")
    try host.join("tool", asProcessOf: "tool", restarts: false)
    return host
  }

  /// The events of what a program reads; of its answer nothing.
  private func events(_ host: VirtualPrograms) throws -> [String] {
    try host.read("tool").bytes.split(separator: 10).compactMap {
      let line = try JSONSerialization.jsonObject(with: Data($0)) as? [String: Any]
      return line?["event"] as? String
    }
  }

  /// What it is asked meanwhile would be a second question to a program that has not answered the first.
  // R-LIFE-12
  @Test func whoIsLeftForItsSilenceIsAskedNothingMore() throws {
    let host = try host()
    #expect(try events(host) == ["didFinishLaunching"])
    try host.ask(.start(foreground: true), of: "tool")
    #expect(host.apps["tool"]?.questions.count == 3)
    #expect(host.pass(.seconds(6)))
    #expect(host.apps["tool"]?.hasJoined == false)
    #expect(host.apps["tool"]?.state == "foreground")
    #expect(try events(host) == ["left"])
  }

  // R-LIFE-06 R-LIFE-08
  @Test func itIsStoppedWhenItHasAnsweredAndKilledWhenItsGraceIsOver() throws {
    let host = try host()
    for answer in 1...2 { host.say(Array("{\"answer\":\(answer)}\n".utf8), as: "tool") }
    try host.ask(.suspend(isAgain: false), of: "tool")
    #expect(host.apps["tool"]?.isFrozen == false)
    host.say(Array("{\"answer\":3}\n".utf8), as: "tool")
    #expect(host.apps["tool"]?.isFrozen == true)
    #expect(host.apps["tool"]?.state == "suspended")
    try host.ask(.resume, of: "tool")
    try host.ask(.terminate, of: "tool")
    #expect(host.apps["tool"]?.hasProcess == true)
    #expect(host.pass(.seconds(60)))
    #expect(host.apps.isEmpty)
  }

  // R-LIFE-08
  @Test func whoIsBeingEndedCannotBeAskedForAnythingElse() throws {
    let host = try host()
    try host.ask(.terminate, of: "tool")
    let requests: [VirtualPrograms.Request] = [
      .suspend(isAgain: false), .resume, .hibernate(isAgain: false), .start(foreground: true),
    ]
    for request in requests {
      let error = #expect(throws: ProcessHostError.self, "\(request)") { try host.ask(request, of: "tool") }
      #expect(error?.message.contains("it is being ended; ask again when it has") == true, "\(request)")
    }
    #expect(host.states == ["tool": "terminated"])
  }

  private func say(_ lines: String..., to host: VirtualPrograms) {
    for line in lines { host.say(Array((line + "\n").utf8), as: "tool") }
  }

  /// A host with a program that has heartbeats of ten minutes, and is suspended.
  private func beating() throws -> VirtualPrograms {
    let host = try host()
    say(#"{"answer":1}"#, #"{"answer":2}"#, #"{"heartbeat":7,"after_ms":600000}"#, to: host)
    #expect(try events(host) == ["didFinishLaunching", "didEnterBackground", "heartbeatSet"])
    try host.ask(.suspend(isAgain: false), of: "tool")
    say(#"{"answer":3}"#, to: host)
    #expect(try events(host) == ["willSuspend"])
    return host
  }

  // R-VOIP-02 R-VOIP-03 R-VOIP-05
  @Test func itGoesOnForEachHeartbeatAndIsSuspendedAgain() throws {
    let host = try beating()
    for round in UInt64(0)..<3 {
      #expect(host.pass(.seconds(599)))
      #expect(host.apps["tool"]?.isFrozen == true)
      #expect(host.pass(.seconds(1)))
      #expect(host.apps["tool"]?.isFrozen == false)
      #expect(host.apps["tool"]?.state == "background")
      for answer in 4...5 { say("{\"answer\":\(round * 3 + UInt64(answer))}", to: host) }
      #expect(host.apps["tool"]?.isFrozen == false)
      if round == 2 { say(#"{"heartbeat":8}"#, to: host) }
      say("{\"answer\":\(round * 3 + 6)}", to: host)
      let told = ["didResume", "heartbeat", "willSuspend"]
      #expect(try events(host) == told + (round == 2 ? ["heartbeatSet"] : []))
      #expect(host.apps["tool"]?.state == "suspended")
    }
    // It has taken them back.
    #expect(host.pass(.seconds(36_000)))
    #expect(host.apps["tool"]?.isFrozen == true)
    #expect(try events(host) == [])
  }

  // R-VOIP-03
  @Test func whatRunsIsAskedForNoHeartbeat() throws {
    let host = try beating()
    try host.ask(.resume, of: "tool")
    say(#"{"answer":4}"#, to: host)
    #expect(host.pass(.seconds(3600)))
    #expect(try events(host) == ["didResume"])
    // From each suspension they count anew.
    try host.ask(.suspend(isAgain: false), of: "tool")
    say(#"{"answer":5}"#, to: host)
    #expect(host.pass(.seconds(600)))
    #expect(try events(host) == ["willSuspend", "didResume"])
  }

  // R-VOIP-02
  @Test func whoTakesThemBackWhileItRunsIsAskedForNone() throws {
    let host = try beating()
    try host.ask(.resume, of: "tool")
    say(#"{"answer":4}"#, #"{"heartbeat":8}"#, to: host)
    try host.ask(.suspend(isAgain: false), of: "tool")
    say(#"{"answer":5}"#, to: host)
    #expect(host.pass(.seconds(3600)))
    #expect(try events(host) == ["didResume", "heartbeatSet", "willSuspend"])
    #expect(host.apps["tool"]?.isFrozen == true)
  }

  // R-VOIP-02
  @Test func whoLeavesHasNoHeartbeats() throws {
    let host = try beating()
    host.disconnect("tool")
    #expect(host.pass(.seconds(1000)))
    #expect(host.apps["tool"]?.isFrozen == true)
    // Another process of it has asked for none.
    try host.ask(.resume, of: "tool")
    try host.join("tool", asProcessOf: "tool", restarts: false)
    say(#"{"answer":1}"#, #"{"answer":2}"#, to: host)
    try host.ask(.suspend(isAgain: false), of: "tool")
    say(#"{"answer":3}"#, to: host)
    #expect(host.pass(.seconds(3600)))
    #expect(try events(host) == ["didFinishLaunching", "didEnterBackground", "willSuspend"])
    #expect(host.apps["tool"]?.isFrozen == true)
    #expect(host.apps["tool"]?.hasJoined == true)
  }

  /// A program with the app `mail` inside, which counts itself in front; the program is in background.
  private func outer() throws -> VirtualPrograms {
    let host = try host()
    say(
      #"{"answer":1}"#, #"{"answer":2}"#, #"{"app":7,"name":"mail","state":"foreground"}"#, to: host)
    #expect(try events(host) == ["didFinishLaunching", "didEnterBackground"])
    return host
  }

  // R-LIFE-01, R-LIFE-04
  @Test func appsInsideAreInNoHigherStateThanTheirProgram() throws {
    let host = try outer()
    #expect(host.states == ["tool": "background", "tool/mail": "background"])
    try host.ask(.start(foreground: true), of: "tool")
    #expect(host.states["tool/mail"] == "foreground")
    say(#"{"app":7,"state":"hibernated"}"#, #"{"app":8,"name":"music","state":"background"}"#, to: host)
    #expect(host.states["tool/mail"] == "hibernated")
    for answer in 3...4 { say(#"{"answer":\#(answer)}"#, to: host) }
    try host.ask(.suspend(isAgain: false), of: "tool")
    for answer in 5...7 { say(#"{"answer":\#(answer)}"#, to: host) }
    let stopped = ["tool": "suspended", "tool/mail": "suspended", "tool/music": "suspended"]
    #expect(host.states == stopped)
    try host.ask(.resume, of: "tool/music")
    #expect(host.states["tool/music"] == "background")
    say(#"{"app":8,"state":"terminated"}"#, to: host)
    #expect(host.states["tool/music"] == nil)
    host.disconnect("tool")
    #expect(host.states == ["tool": "background"])
  }

  // R-LIFE-04, R-LIFE-08
  @Test func itsProgramIsAskedForWhatUsersWantOfIt() throws {
    let host = try outer()
    try host.ask(.start(foreground: true), of: "tool/mail")
    #expect(host.states == ["tool": "foreground", "tool/mail": "foreground"])
    for answer in 3...5 { say(#"{"answer":\#(answer)}"#, to: host) }
    let forward = ["willEnterForeground", "didBecomeActive", "bringAppForward"]
    #expect(try events(host) == forward)
    try host.ask(.suspend(isAgain: false), of: "tool/mail")
    say(#"{"answer":6,"reply":"it plays"}"#, to: host)
    #expect(try events(host) == ["suspendApp"])
    #expect(host.apps["tool"]?.state == "foreground")
    #expect(host.apps["tool"]?.notes == ["'tool/mail' was not suspended: it plays"])
    // A program that is suspended goes on for it, and is suspended again.
    try host.ask(.suspend(isAgain: false), of: "tool")
    for answer in 7...9 { say(#"{"answer":\#(answer)}"#, to: host) }
    #expect(host.apps["tool"]?.isFrozen == true)
    _ = try events(host)
    try host.ask(.terminate, of: "tool/mail")
    #expect(host.apps["tool"]?.isFrozen == false)
    for answer in 10...11 { say(#"{"answer":\#(answer)}"#, to: host) }
    say(#"{"app":7,"state":"terminated"}"#, #"{"answer":12}"#, to: host)
    #expect(try events(host) == ["didResume", "terminateApp", "willSuspend"])
    #expect(host.apps["tool"]?.isFrozen == true)
    #expect(host.states == ["tool": "suspended"])
  }

  @Test func whatItsProgramHasIsNotTheAppsInside() throws {
    let host = try outer()
    for request in [VirtualPrograms.Request.hibernate(isAgain: false), .keep(seconds: nil), .warn] {
      let error = #expect(throws: ProcessHostError.self) { try host.ask(request, of: "tool/mail") }
      #expect(error?.message.contains("it is inside of 'tool'") == true, "\(request)")
    }
    let letter = VirtualPrograms.Request.notify(Message("letter"))
    let error = #expect(throws: ProcessHostError.self) { try host.ask(letter, of: "tool/mail") }
    #expect(error?.message.contains("it is inside of 'tool'") == true)
    let none = #expect(throws: ProcessHostError.self) { try host.ask(.terminate, of: "tool/none") }
    #expect(none?.code == .unknownApp("tool/none"))
    #expect(try events(host) == [])
  }

  /// Who asks again and again costs a program nothing, least its connection.
  @Test func whatIsAskedAlreadyIsAskedOnce() throws {
    let host = try outer()
    for _ in 0..<40 { try host.ask(.suspend(isAgain: false), of: "tool/mail") }
    say(#"{"answer":3}"#, to: host)
    #expect(try events(host) == ["suspendApp"])
    // Not of what is suspended already, as all is in a suspended program.
    say(#"{"app":7,"state":"suspended"}"#, to: host)
    try host.ask(.suspend(isAgain: false), of: "tool/mail")
    try host.ask(.suspend(isAgain: false), of: "tool")
    say(#"{"answer":4}"#, #"{"app":7,"state":"background"}"#, to: host)
    try host.ask(.suspend(isAgain: false), of: "tool/mail")
    #expect(try events(host) == ["willSuspend"])
    #expect(host.apps["tool"]?.isFrozen == true)
  }

  @Test func aNinthQuestionAboutAppsIsRefused() throws {
    let host = try outer()
    for number in 0..<9 { say(#"{"app":\#(number),"name":"a\#(number)","state":"background"}"#, to: host) }
    for number in 0..<8 { try host.ask(.terminate, of: "tool/a\(number)") }
    let error = #expect(throws: ProcessHostError.self) { try host.ask(.terminate, of: "tool/a8") }
    #expect(error?.message.contains("8 questions about apps wait") == true)
    #expect(host.apps["tool"]?.questions.count == 8)
  }

  @Test(arguments: [
    (#"{"app":8,"name":"mail","state":"background"}"#, "another of its apps is named 'mail'"),
    (#"{"app":8,"name":"a/b","state":"background"}"#, "its name is 'a/b'"),
    (#"{"app":8,"state":"background"}"#, "its name is ''"),
    (#"{"app":7,"state":"asleep"}"#, "its state is none of"), (#"{"app":7}"#, "its state is none of"),
  ]) func whatCannotBeListedIsRefused(line: String, why: String) throws {
    let host = try outer()
    say(line, to: host)
    let read = String(decoding: host.read("tool").bytes, as: UTF8.self)
    #expect(read.contains(#""event":"appRefused""#) && read.contains(why), "\(read)")
    #expect(host.states == ["tool": "background", "tool/mail": "background"])
  }

  @Test func aSixtyFifthIsRefused() throws {
    let host = try host()
    for number in 0..<65 { say(#"{"app":\#(number),"name":"a\#(number)","state":"suspended"}"#, to: host) }
    #expect(host.states.count == 1 + 64)
    #expect(try events(host).count { $0 == "appRefused" } == 1)
    #expect(host.apps["tool"]?.hasJoined == true)
  }

  // R-VOIP-02
  @Test(arguments: [("599999", "600"), ("0", "more than 0"), ("-1", "more than 0")])
  func tooManyHeartbeatsAreRefused(interval: String, why: String) throws {
    let host = try host()
    say(#"{"answer":1}"#, #"{"answer":2}"#, #"{"heartbeat":7,"after_ms":\#(interval)}"#, to: host)
    let read = String(decoding: host.read("tool").bytes, as: UTF8.self)
    #expect(read.contains(#""event":"heartbeatRefused","number":7"#) && read.contains(why), "\(read)")
    try host.ask(.suspend(isAgain: false), of: "tool")
    say(#"{"answer":3}"#, to: host)
    #expect(host.pass(.seconds(3600)))
    #expect(host.apps["tool"]?.isFrozen == true)
  }
}
