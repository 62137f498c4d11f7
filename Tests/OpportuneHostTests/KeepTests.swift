import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// Exemptions from suspension.
@Suite(.bounded) struct KeepTests {
  @Test func whatIsKeptIsNotSuspended() async throws {
    let hosted = try Hosted(.signals)
    let pid = try hosted.shell("exec sleep 600")
    try hosted.host.keep("app", reason: "it builds")
    #expect(hosted.entry()?.keptBy == ["exempt: it builds"])
    #expect(throws: ProcessHostError(.exempt("app", "exempt: it builds"))) { try hosted.host.suspend("app") }
    #expect(hosted.entry()?.state == "background")
    #expect(!isStopped(pid))
    try hosted.host.endKeeping("app")
    #expect(hosted.entry()?.keptBy == [])
    try hosted.host.suspend("app")
    #expect(hosted.entry()?.state == "suspended")
    #expect(throws: ProcessHostError(.lifecycle("app", "it does not run: it is suspended"))) {
      try hosted.host.keep("app")
    }
    #expect(throws: ProcessHostError(.unknownApp("none"))) { try hosted.host.keep("none") }
    for seconds in [0, -1, 1e9, .nan, .infinity] {
      #expect(throws: ProcessHostError.self) { try hosted.host.keep("app", seconds: seconds) }
    }
    try await hosted.end()
  }

  @Test func anExemptionEndsByItself() async throws {
    let hosted = try Hosted(.signals)
    _ = try hosted.shell("exec sleep 600")
    let start = ContinuousClock.now
    try hosted.host.keep("app", seconds: 0.3, reason: "for a while")
    #expect(throws: ProcessHostError.self) { try hosted.host.suspend("app") }
    // Nothing but the host's own timer takes it away: the list looks and changes nothing.
    try await eventually("its end") { hosted.entry()?.keptBy == [] }
    #expect(start.duration(to: .now) >= .milliseconds(300))
    try hosted.host.suspend("app")
    #expect(hosted.entry()?.state == "suspended")
    try await hosted.end()
  }

  @Test func theEndIsShown() throws {
    let wall = Int64(time(nil))
    let seconds = try #require(Exemption.seconds(until: "18:05", now: wall))
    let one = try Exemption(seconds: seconds, reason: "x", now: .seconds(7), wall: wall)
    #expect(one.text == "exempt until 18:05: x")
    #expect(!one.isOver(at: .seconds(6 + seconds)))
    #expect(one.isOver(at: .seconds(7 + seconds)))
    let late = try Exemption(seconds: 200_000, reason: "", now: .zero, wall: wall)
    #expect(late.text.hasPrefix("exempt until 20"))
    #expect(throws: ProcessHostError.self) {
      try Exemption(seconds: nil, reason: String(repeating: "x", count: 201), now: .zero, wall: wall)
    }
  }

  @Test func timesAreRead() {
    for (text, seconds) in [
      ("90", 90), ("90s", 90), ("15m", 900), ("1.5h", 5400), ("2d", 172_800), ("366d", 31_622_400),
    ] as [(String, Double)] { #expect(Exemption.seconds(of: text) == seconds) }
    for text in ["", "s", "0", "-1", "1w", "1e3", "inf", "nan", "367d", "0x10", "1 h", "٣m"] {
      #expect(Exemption.seconds(of: text) == nil, "\(text)")
    }
    for text in ["", "18", "24:00", "7:60", "-1:00", "1:2:3", "a:b", "007:00", " 7:00", "٧:00"] {
      #expect(Exemption.seconds(until: text, now: 1_800_000_000) == nil, "\(text)")
    }
    for text in ["00:00", "7:05", "23:59"] {
      let seconds = Exemption.seconds(until: text, now: 1_800_000_000)
      #expect(seconds.map { $0 > 0 && $0 <= 25 * 3600 } == true, "\(text)")
    }
  }

  @Test func theCommandKeeps() async throws {
    let place = try Place()
    let host = try await HostProgram(place, .auto)
    let output = try Output()
    let program = try host.run(["sh", "-c", "echo up; exec sleep 600"], output: output)
    _ = try await output.line("up")
    func keep(_ arguments: String...) throws -> Int32 {
      try told(by: ["keep", "--socket", place.path, "sh"] + arguments).status
    }
    #expect(try keep("--until", "25:00") == 64)
    #expect(try keep("--for", "1w") == 64)
    #expect(try keep("--for", "1h", "--end") == 64)
    #expect(try keep("--for", "1h", "--reason", "a build") == 0)
    let kept = try host.ask(.apps, nil).apps?.first?.keptBy.last
    #expect(kept?.hasPrefix("exempt until ") == true)
    #expect(kept?.hasSuffix(": a build") == true)
    #expect(throws: (any Error).self) { try host.ask(.suspend, "sh") }
    #expect(try keep("--end") == 0)
    try host.ask(.suspend, "sh")
    try host.ask(.terminate, "sh")
    program.waitUntilExit()
    try await host.endWhenEmpty()
  }
}
