import OpportuneBase

/// A whole run: every scenario with every contender in turn, repeat after repeat, windows interleaved.
package struct BenchRun: BlockingBench {
  package typealias Outcome = BenchReport

  package let context: BenchContext<BenchOptions>
  private let rule = NoiseRule()

  package init(_ context: BenchContext<BenchOptions>) { self.context = context }

  package func measure() throws -> BenchReport {
    let machine = MachineReport.current()
    let rate = SpinWork.calibrate()
    let meter = NoiseMeter(iterationsPerMicrosecond: rate)
    progress("the windows take \(Int(options.secondsOfWindows.rounded())) s")
    let start = SystemClock.now()
    var tallies: [Tally] = options.scenarios.flatMap { scenario in
      options.contenders.filter(scenario.admits).map { Tally(scenario: scenario, contender: $0) }
    }
    var noise = NoiseReport()
    let rounds = options.scenarios.map(options.repeats(of:)).max() ?? 0
    rounds: for round in 0..<rounds {
      for scenario in options.scenarios where round < options.repeats(of: scenario) {
        let turns = tallies.indices.filter { tallies[$0].scenario == scenario }
        for turn in BenchOptions.order(turns, repeat: round) {
          if isInterrupted() { break rounds }
          progress(progressLine(tallies[turn], round, since: start))
          let pair = Pair(
            scenario: scenario, machine: machine, rate: rate, meter: meter, rule: rule,
            isInterrupted: isInterrupted, runStart: start)
          let seconds = options.seconds / Double(options.repeats(of: scenario))
          try pair.run(&tallies[turn], noise: &noise, seconds: seconds, seed: seed(scenario, round))
        }
      }
    }
    return BenchReport(
      machine: machine, noise: noise, tallies: tallies,
      wasInterrupted: isInterrupted(), seconds: Double(elapsed(from: start, to: SystemClock.now())) / 1e9)
  }

  private func seed(_ scenario: Scenario, _ round: Int) -> UInt64 {
    UInt64(round + 1) &* 1_000_003
      &+ UInt64(scenario.name.utf8.reduce(0) { $0 &* 31 &+ Int($1) } & 0xFFFF_FFFF)
  }

  private func progressLine(_ tally: Tally, _ round: Int, since start: Nanoseconds) -> String {
    let seconds = elapsed(from: start, to: SystemClock.now()) / 1_000_000_000
    let repeats = options.repeats(of: tally.scenario)
    return "[\(seconds) s] repeat \(round + 1)/\(repeats) \(tally.scenario.name): \(tally.contender.name)"
  }
}

/// The windows of one repeat of one contender, which belong together.
private struct Pair {
  let scenario: Scenario
  let machine: MachineReport
  let rate: Double
  let meter: NoiseMeter
  let rule: NoiseRule
  let isInterrupted: @Sendable () -> Bool
  let runStart: Nanoseconds

  func run(_ tally: inout Tally, noise: inout NoiseReport, seconds: Double, seed: UInt64) throws {
    var plan = WindowPlan(
      scenario: scenario, kind: .beside, duration: Nanoseconds(seconds * 1e9), seed: seed,
      cores: machine.cores, rate: rate)
    let beside = try window(plan, tally.contender)
    tally.countBeside(beside, rule: rule, cores: machine.cores, runStart: runStart)
    noise.count(beside.slices, rule: rule, cores: machine.cores)
    if isInterrupted() { return }

    plan.kind = .foregroundAlone
    plan.duration = Nanoseconds(seconds * BenchOptions.foregroundAloneShare * 1e9)
    let foreground = try window(plan, tally.contender)
    tally.countForegroundAlone(foreground, rule: rule, cores: machine.cores)
    noise.count(foreground.slices, rule: rule, cores: machine.cores)
    if isInterrupted() { return }

    guard scenario.hasBackground else { return }
    plan.kind = .backgroundAlone
    plan.duration = Nanoseconds(seconds * BenchOptions.backgroundAloneShare * 1e9)
    let background = try window(plan, tally.contender)
    noise.count(background.slices, rule: rule, cores: machine.cores)
    if isInterrupted() { return }
    tally.pairs.append(
      (
        beside: rule.usage(beside.slices, cores: machine.cores),
        alone: rule.usage(background.slices, cores: machine.cores)
      ))
  }

  private func window(_ plan: WindowPlan, _ kind: ContenderKind) throws -> WindowOutcome {
    try WindowRunner(plan: plan, meter: meter, isInterrupted: isInterrupted).run(kind.make())
  }
}
