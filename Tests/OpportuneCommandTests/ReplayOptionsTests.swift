import ArgumentParser
import Opportune
import TestSupport
import Testing

@testable import OpportuneCommand

@Suite(.bounded) struct ReplayOptionsTests {
  // R-FTS-02, R-MEM-02, R-PWR-02, R-TASK-04
  @Test func eachOptionOfAReplayIsTaken() throws {
    let standard = try ReplayCommand.parse(["trace.db"]).options()
    #expect(standard.onBattery && !standard.policy.power.fullOnMains && standard.manifestRules.isEmpty)
    #expect(standard.memory == nil && standard.criticalPoint == .threeQuarters)
    #expect(standard.policy.grace == .seconds(5) && standard.policy.tasks.wallClock == .seconds(180))
    let options = try ReplayCommand.parse(
      [
        "trace.db", "--memory", "2G", "--critical-point", "90", "--grace", "6.5", "--task-time", "300",
        "--no-on-battery", "--footprint", "512K", "--manifest", "music=audio,fetch", "--manifest",
        "maps=location",
      ]
    ).options()
    #expect(!options.onBattery && options.policy.power.fullOnMains)
    #expect(options.memory == 2 << 30 && options.criticalPoint == .nineTenths)
    #expect(options.policy.grace == .milliseconds(6500) && options.policy.tasks.wallClock == .seconds(300))
    #expect(options.footprint == 512 << 10)
    #expect(options.manifestRules.map(\.pattern) == ["music", "maps"])
    #expect(options.manifestRules.map(\.modes) == [[.audio, .fetch], [.location]])
  }

  @Test(arguments: [
    (["--memory", "2X"], "--memory is '2X', expected bytes"), (["--memory", "0"], "--memory is '0'"),
    (["--memory", "99999999999G"], "expected bytes"), (["--critical-point", "0"], "--critical-point is 0.0"),
    (["--critical-point", "101"], "at most 100"), (["--grace=-1"], "--grace is -1.0"),
    (["--task-time", "0"], "--task-time is 0.0"), (["--footprint", "1.5M"], "--footprint is '1.5M'"),
    (["--manifest", "music"], "expected text=mode,mode"),
    (["--manifest", "music=tv"], "'tv' is no background mode"),
  ]) func whatMakesNoSenseIsNamed(arguments: [String], part: String) throws {
    let error = try #require(
      #expect(throws: (any Error).self) { try ReplayCommand.parse(["trace.db"] + arguments) })
    #expect(ReplayCommand.message(for: error).contains(part))
  }

  @Test func aRecordingThatIsNoneIsAFailureAndNoWrongUse() throws {
    let error = try #require(
      #expect(throws: Failure.self) { try ReplayCommand.parse(["/nonexistent/usage.db"]).run() })
    #expect(error.description.contains("/nonexistent/usage.db"))
    #expect(ReplayCommand.exitCode(for: error) == .failure)
  }
}
