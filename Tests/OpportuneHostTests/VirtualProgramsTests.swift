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
}
