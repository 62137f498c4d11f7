import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct ScenarioTests {
  // R-CARD-06
  @Test func oneScenarioIsTheDefault() throws {
    #expect(try Scenario.select([]).map(\.name) == ["heavy-20ms"])
  }

  // R-CARD-06
  @Test func commasAndRepeatsNameEachScenarioOnce() throws {
    let names = try Scenario.select(["light-20ms,heavy-20ms", "light-20ms"]).map(\.name)
    #expect(names == ["light-20ms", "heavy-20ms"])
  }

  @Test func allNamesEveryScenario() throws {
    #expect(try Scenario.select(["all"]) == Scenario.all)
    let issue = [
      "light-200us", "light-20ms", "light-1s", "heavy-20ms", "hog-20ms", "hog-1s", "hog-1s-outside",
      "hog-20ms-yielding", "hogs-10000", "block-1s", "full", "mixed",
    ]
    #expect(Set(issue).isSubset(of: Set(Scenario.all.map(\.name))))
  }

  @Test func plainHogMeansLinked() throws {
    #expect(try Scenario.select(["hog-1s-linked"]) == Scenario.select(["hog-1s"]))
    #expect(try Scenario.select(["hog-1s"]).first?.hogs?.variant == .linked)
  }

  @Test(arguments: ["nope", "", "light-20ms,", "light-20ms-linked", "ALL"])
  func unknownScenarioNamesTheValueAndTheValidOnes(_ name: String) {
    let error = #expect(throws: BenchError.self) { try Scenario.select([name]) }
    #expect(error?.code == .invalidArgument)
    #expect(error?.description.contains("hog-20ms-outside") == true)
  }

  @Test func limitsOnlyWhereTheySaySomething() throws {
    let told = try #require(ContenderKind.all.first { $0.name == "limit-told" })
    let fifo = try #require(ContenderKind.all.first { $0.name == "limit-fifo" })
    for scenario in Scenario.all {
      #expect(scenario.admits(told) == scenario.hurtsItself)
      // A real-time class for CPU-bound jobs would stop the machine.
      #expect(!(scenario.hogs != nil && scenario.admits(fifo)))
    }
  }
}

@Suite(.bounded) struct OptionTests {
  // R-CARD-08
  @Test(arguments: [0, -1, .nan, .infinity, 1e9])
  func secondsOutOfRange(_ seconds: Double) {
    let error = #expect(throws: BenchError.self) { try BenchOptions(seconds: seconds, isRoot: false) }
    #expect(error?.description.contains("--seconds '\(seconds)'") == true)
  }

  @Test(arguments: [0, -3, 101, 11])
  func repeatsOutOfRange(_ repeats: Int) {
    let error = #expect(throws: BenchError.self) {
      try BenchOptions(seconds: 2, repeats: repeats, isRoot: false)
    }
    #expect(error?.description.contains("--repeats '\(repeats)'") == true)
  }

  @Test func unknownContenderNamesTheValidOnes() {
    let error = #expect(throws: BenchError.self) { try ContenderKind.select(["tbb"], isRoot: true) }
    #expect(error?.description.contains("'tbb'") == true)
    #expect(error?.description.contains("limit-idle") == true)
  }

  @Test func realTimeNeedsRoot() throws {
    let error = #expect(throws: BenchError.self) { try ContenderKind.select(["limit-fifo"], isRoot: false) }
    #expect(error?.code == .unavailable)
    #expect(try !ContenderKind.select([], isRoot: false).contains { $0.name == "limit-fifo" })
    #expect(try ContenderKind.select([], isRoot: true).contains { $0.name == "limit-fifo" })
  }

  @Test func aScenarioWithoutContenderIsRefused() {
    #expect(throws: BenchError.self) {
      try BenchOptions(scenarios: ["light-20ms"], contenders: ["limit-told"], isRoot: true)
    }
  }

  @Test func orderRotatesSoThatEachRunsFirst() {
    let rounds = (0..<3).map { BenchOptions.order(["a", "b", "c"], repeat: $0) }
    #expect(rounds == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]])
    #expect(BenchOptions.order([Int](), repeat: 5).isEmpty)
  }

  @Test func shortRunsHaveFewerRepeats() throws {
    let options = try BenchOptions(seconds: 0.5, isRoot: false)
    let scenario = try #require(options.scenarios.first)
    #expect(options.repeats(of: scenario) == 1)
  }

  /// As README and `--help` say it: beside the background, without it, and the background alone.
  @Test func theTimeOfARunIsKnownBefore() throws {
    func seconds(_ scenarios: [String] = [], repeats: Int? = nil, isRoot: Bool = false) throws -> Int {
      let options = try BenchOptions(scenarios: scenarios, seconds: 10, repeats: repeats, isRoot: isRoot)
      return Int(options.secondsOfWindows.rounded())
    }
    #expect(try seconds() == 64)
    #expect(try seconds(isRoot: true) == 80)
    #expect(try seconds(repeats: 2) == 64)
    // Seven contenders, beside twelve blocked jobs, which are no background to run alone.
    #expect(try seconds(["block-1s"]) == 88)
    #expect(try seconds(["light-200us", "light-1s"]) == 128)
  }
}
