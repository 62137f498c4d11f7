import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded) struct ConfigurationTests {
  // R-CPU-04, R-CPU-07
  @Test func defaultsAreValidAndAsDocumented() throws {
    let configuration = SchedulerConfiguration()
    try configuration.validate()
    #expect(configuration.bands.overlap == 1)
    #expect(configuration.quantum.quantum == .milliseconds(10))
    #expect(configuration.quantum.step == 1)
    #expect(configuration.quantum.recovery == .full)
    #expect(configuration.quantum.blockingGap == .milliseconds(1))
    #expect(configuration.quantum.offCPUShare == 0.05)
    #expect(configuration.foregroundClass == .normal)
    #expect(configuration.backgroundClass == .idle)
    #expect(configuration.overlapClass == .nice19)
    #expect(configuration.workers == .automatic)
    #expect(configuration.pools == [.foreground, .background])
    #expect(configuration.demotedLimitPerCore == 4)
    #expect(configuration.spareDelay == .microseconds(500))
    #expect(configuration.maximumApps == 4096)
    #expect(!configuration.countsEscapes && configuration.collectsStatistics)
  }

  struct Case: Sendable, CustomTestStringConvertible {
    let code: ConfigurationError.Code
    let value: String
    let change: @Sendable (inout SchedulerConfiguration) -> Void
    var testDescription: String { "\(code) \(value)" }
  }

  static let refused: [Case] = [
    Case(code: .quantum, value: "999.999 µs") { $0.quantum.quantum = .microseconds(999) + .nanoseconds(999) },
    Case(code: .quantum, value: "501 ms") { $0.quantum.quantum = .milliseconds(501) },
    Case(code: .quantum, value: "-") { $0.quantum.quantum = .seconds(Int64.min) },
    Case(code: .quantum, value: "92") { $0.quantum.quantum = .seconds(Int64.max) },
    Case(code: .step, value: "0") { $0.quantum.step = 0 },
    Case(code: .step, value: "64") { $0.quantum.step = 64 },
    Case(code: .blockingGap, value: "249 µs") { $0.quantum.blockingGap = .microseconds(249) },
    Case(code: .blockingGap, value: "1.001 s") { $0.quantum.blockingGap = .milliseconds(1001) },
    Case(code: .offCPUShare, value: "0.009") { $0.quantum.offCPUShare = 0.009 },
    Case(code: .offCPUShare, value: "0.13") { $0.quantum.offCPUShare = 0.13 },
    Case(code: .offCPUShare, value: "nan") { $0.quantum.offCPUShare = .nan },
    Case(code: .realTimeQuantum, value: "99 µs") {
      $0.foregroundClass = .realTime(quantum: .microseconds(99))
    },
    Case(code: .realTimeQuantum, value: "10.1 ms") {
      $0.foregroundClass = .realTime(quantum: .microseconds(10_100))
    },
    Case(code: .realTimeShare, value: "0.04") { $0.foregroundClass = .realTime(share: 0.04) },
    Case(code: .realTimeShare, value: "0.91") { $0.foregroundClass = .realTime(share: 0.91) },
    Case(code: .realTimeShare, value: "nan") { $0.foregroundClass = .realTime(share: .nan) },
    Case(code: .workers, value: "0") { $0.workers = .fixed(0) },
    Case(code: .workers, value: "257") { $0.workers = .fixed(257) },
    Case(code: .pools, value: "[]") { $0.pools = [] },
    Case(code: .pools, value: "[foreground, realTime]") { $0.pools = [.realTime, .foreground] },
    Case(code: .pools, value: "[background]") { $0.pools = [.background] },
    Case(code: .demotedLimitPerCore, value: "0") { $0.demotedLimitPerCore = 0 },
    Case(code: .demotedLimitPerCore, value: "65") { $0.demotedLimitPerCore = 65 },
    Case(code: .spareDelay, value: "49 µs") { $0.spareDelay = .microseconds(49) },
    Case(code: .spareDelay, value: "11 ms") { $0.spareDelay = .milliseconds(11) },
    Case(code: .timerTolerance, value: "-1 ms") { $0.timerTolerance = .milliseconds(-1) },
    Case(code: .timerTolerance, value: "1.001 s") { $0.timerTolerance = .milliseconds(1001) },
    Case(code: .maximumApps, value: "0") { $0.maximumApps = 0 },
    Case(code: .maximumApps, value: "32768") { $0.maximumApps = 32_768 },
    Case(code: .name, value: "\"\"") { $0.name = "" },
    Case(code: .name, value: "\"a\\0b\"") { $0.name = "a\0b" },
    Case(code: .name, value: "éé") { $0.name = String(repeating: "é", count: 33) },
  ]

  @Test(arguments: refused)
  func refusesAndSaysWhy(_ refused: Case) throws {
    var configuration = SchedulerConfiguration()
    refused.change(&configuration)
    let error = try #require(throws: ConfigurationError.self) { try configuration.validate() }
    #expect(error.code == refused.code)
    #expect(error.value.contains(refused.value))
    #expect(error.description.contains(error.value) && error.description.contains(error.expected))
    #expect(error.description.hasPrefix(refused.code.description))
  }

  @Test func boundsThemselvesAreAccepted() throws {
    var low = SchedulerConfiguration()
    low.quantum = QuantumPolicy(
      quantum: .milliseconds(1), step: 1, blockingGap: .microseconds(250), offCPUShare: 0.01)
    low.workers = .fixed(1)
    low.demotedLimitPerCore = 1
    low.spareDelay = .microseconds(50)
    low.timerTolerance = .zero
    low.maximumApps = 1
    low.name = "x"
    try low.validate()
    var high = SchedulerConfiguration()
    high.quantum = QuantumPolicy(
      quantum: .milliseconds(500), step: 63, blockingGap: .seconds(1), offCPUShare: 0.125)
    high.workers = .fixed(256)
    high.pools = Set(WorkerPool.allCases)
    high.demotedLimitPerCore = 64
    high.spareDelay = .milliseconds(10)
    high.timerTolerance = .seconds(1)
    high.maximumApps = 32_767
    high.name = String(repeating: "é", count: 32)
    try high.validate()
  }

  @Test func errorsAreEqualByCode() {
    let one = ConfigurationError(.step, value: 0, expected: "1 to 63")
    #expect(one == ConfigurationError(.step, value: 99, expected: "1 to 63"))
    #expect(one != ConfigurationError(.quantum, value: 0, expected: "1 to 63"))
  }

  @Test func foregroundServesRealTimeLevelsWhereThatPoolIsOff() {
    var configuration = SchedulerConfiguration()
    #expect(configuration.pool(of: 60) == .foreground)
    configuration.pools.insert(.realTime)
    #expect(configuration.pool(of: 60) == .realTime)
    #expect(configuration.pool(of: 20) == .background)
  }
}
