/// What to run, checked.
package struct BenchOptions: Sendable {
  package let scenarios: [Scenario]
  package let contenders: [ContenderKind]
  /// Seconds of every scenario and contender beside its background, all repeats together. The two windows
  /// that it is paired with, foreground alone and background alone, take a quarter and a third of that more.
  package let seconds: Double
  /// Nil: each scenario's own.
  package let repeats: Int?

  /// Shortest time of one window, in seconds.
  package static let windowSecondsMin = 0.2
  static let foregroundAloneShare = 0.25
  static let backgroundAloneShare = 0.35

  package init(
    scenarios: [String] = [], contenders: [String] = [], seconds: Double = 10, repeats: Int? = nil,
    isRoot: Bool
  ) throws(BenchError) {
    self.seconds = try BenchError.check(seconds, "--seconds", 0.2...3600)
    if let repeats {
      try BenchError.check(repeats, "--repeats", 1...100)
      try BenchError.checkWindow(seconds, repeats, least: Self.windowSecondsMin)
    }
    let chosenScenarios = try Scenario.select(scenarios)
    let chosenContenders = try ContenderKind.select(contenders, isRoot: isRoot)
    for scenario in chosenScenarios where !chosenContenders.contains(where: scenario.admits) {
      throw .invalid(
        "--contender", contenders.joined(separator: ","),
        expected: "at least one that runs in scenario \(scenario.name): "
          + ContenderKind.all.filter(scenario.admits).map(\.name).joined(separator: ", "))
    }
    self.scenarios = chosenScenarios
    self.contenders = chosenContenders
    self.repeats = repeats
  }

  /// How many pairs of a scenario and a contender there are.
  package var turns: Int { scenarios.reduce(0) { $0 + contenders.count(where: $1.admits) } }

  /// Seconds that the windows take, all together: of each scenario and contender `seconds`, and what its
  /// other two windows take. Starting comes on top.
  package var secondsOfWindows: Double {
    scenarios.reduce(0) { sum, scenario in
      let shares = 1 + Self.foregroundAloneShare + (scenario.hasBackground ? Self.backgroundAloneShare : 0)
      return sum + Double(contenders.count(where: scenario.admits)) * seconds * shares
    }
  }

  /// Repeats of a scenario: as asked for, or as many of its own as `seconds` has room for.
  func repeats(of scenario: Scenario) -> Int {
    repeats ?? max(1, min(scenario.defaultRepeats, Int(seconds / (2 * Self.windowSecondsMin))))
  }

  /// The turn of each contender in a repeat: rotated, so that none always runs first.
  static func order<Element>(_ contenders: [Element], repeat round: Int) -> [Element] {
    guard !contenders.isEmpty else { return [] }
    let shift = round % contenders.count
    return Array(contenders[shift...] + contenders[..<shift])
  }
}
