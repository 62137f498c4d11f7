import OpportuneBase

/// A property as a target.
package struct PropertyTarget: FuzzTarget {
  package let property: any DrawnProperty

  package init(_ property: any DrawnProperty) { self.property = property }

  package var name: String { property.name }
  package var summary: String { property.summary }
  package var isHidden: Bool { property.isCanary }

  package func makeFuzzer() throws(FuzzError) -> any Fuzzer { PropertyFuzzer(property) }

  /// Runs an input that another driver has chosen. Where it fails it is made smaller, for so long at most.
  package func finding(of input: [UInt8], milliseconds: UInt64) -> Finding? {
    let fuzzer = PropertyFuzzer(property)
    return fuzzer.fails(input) ? fuzzer.shrunkFinding(milliseconds: milliseconds) : nil
  }
}

/// Draws inputs, runs them where a trap is no end, and makes a failing one smaller.
final class PropertyFuzzer: Fuzzer {
  /// An execution that takes longer is a finding: none takes a hundredth of it.
  private static let patience: UInt64 = 20_000
  /// Each trap costs a thread.
  private static let trapsMax = 1000

  private let property: any DrawnProperty
  private var failing: [UInt8] = []
  /// How the failure that was seen last went: what depends on the schedule may not come again.
  private var seen: (message: String, steps: [String]) = ("", [])
  private var traps = 0

  init(_ property: any DrawnProperty) { self.property = property }

  func fuzz(
    seed: UInt64, first: UInt64, milliseconds: UInt64, executions: UInt64
  ) -> (figures: FuzzFigures, failed: Bool) {
    run(milliseconds: milliseconds + Self.patience) { [property] trial in
      let end = SystemClock.now() + milliseconds * 1_000_000
      repeat {
        var generator = SplitMix64(seed: seed, number: first &+ trial.figures.executions)
        trial.execute(property.draw(&generator))
      } while trial.violation == nil && trial.figures.executions != executions && SystemClock.now() < end
    }
  }

  /// Runs one input once.
  func fails(_ input: [UInt8]) -> Bool { run(milliseconds: Self.patience) { $0.execute(input) }.failed }

  private func run(milliseconds: UInt64, _ body: @escaping (Trial) -> Void) -> (
    figures: FuzzFigures, failed: Bool
  ) {
    let trial = Trial(property, keepsSteps: property.tries > 1)
    let failure = trial.run(milliseconds: milliseconds, body)
    if let failure {
      failing = trial.input
      seen = (failure, trial.log.steps)
    }
    return (trial.figures, failure != nil)
  }

  func shrunkFinding(milliseconds: UInt64) -> Finding {
    let failure = shrunkFailure(milliseconds: milliseconds)
    return Finding(failure.input, of: property, failure.message, failure.steps)
  }

  func shrunkFailure(milliseconds: UInt64) -> PropertyFailure {
    let end = SystemClock.now() + milliseconds * 1_000_000
    let shrinker = InputShrinker(head: property.head, grain: property.grain)
    failing = shrinker.shrink(failing) { input in
      guard SystemClock.now() < end, self.traps < Self.trapsMax else { return nil }
      let (failure, steps) = self.run(input, keepsSteps: self.property.tries > 1, until: end)
      guard let failure else { return false }
      self.seen = (failure, steps)
      self.traps += 1
      return true
    }
    let (failure, steps) = run(failing, keepsSteps: true)
    if let failure { return PropertyFailure(message: failure, input: failing, steps: steps) }
    let message = "\(seen.message) (it does not fail again: it depends on more than its input)"
    return PropertyFailure(message: message, input: failing, steps: seen.steps)
  }

  func replay(_ example: String) throws(FuzzError) -> ExampleRun {
    let input = try ExampleText.input(of: example)
    let (failure, steps) = run(input, keepsSteps: true)
    let finding = failure.map { Finding(input, of: property, $0, steps) }
    return ExampleRun(finding: finding, timeline: finding?.timeline ?? Finding.numbered(steps), misfit: nil)
  }

  /// Runs an input as often as the property asks for, and no more after `end`. How it fails, or nil, and the
  /// last run's steps.
  private func run(
    _ input: [UInt8], keepsSteps: Bool, until end: UInt64 = .max
  ) -> (failure: String?, steps: [String]) {
    var steps: [String] = []
    for _ in 0..<property.tries {
      let trial = Trial(property, keepsSteps: keepsSteps)
      let failure = trial.run(milliseconds: Self.patience, { $0.execute(input) })
      steps = trial.log.steps
      if failure != nil { return (failure, steps) }
      if SystemClock.now() >= end { break }
    }
    return (nil, steps)
  }
}

extension Finding {
  fileprivate init(_ input: [UInt8], of property: any Property, _ message: String, _ steps: [String]) {
    self.init(
      target: property.name, message: message,
      example: ExampleText.text(target: property.name, message: message, input: input),
      timeline: Self.numbered(steps) + "\n       FAILS: \(message)")
  }

  static func numbered(_ steps: [String]) -> String {
    var numbered = steps.enumerated().map { index, step in "\(index + 1)".padded(before: 5) + "  " + step }
    // What goes round and round says the same again and again.
    if numbered.count > 400 { numbered.replaceSubrange(200..<numbered.count - 200, with: ["    …"]) }
    return numbered.joined(separator: "\n")
  }
}

extension String {
  fileprivate func padded(before width: Int) -> String {
    String(repeating: " ", count: max(0, width - count)) + self
  }
}
