/// A ``Property`` as a target.
public struct PropertyTarget: FuzzTarget {
  public let property: any Property

  public init(_ property: any Property) { self.property = property }

  public var name: String { property.name }
  public var summary: String { property.summary }
  public var isHidden: Bool { property.isCanary }

  public func makeFuzzer() throws(FuzzError) -> any Fuzzer { PropertyFuzzer(property) }
}

/// Draws inputs, runs them where a trap is no end, and makes a failing one smaller.
final class PropertyFuzzer: Fuzzer {
  /// An execution that takes longer is a finding: none takes a hundredth of it.
  private static let patience: UInt64 = 20_000
  /// Each trap costs a thread.
  private static let trapsMax = 1000

  private let property: any Property
  private var failing: [UInt8] = []
  private var traps = 0

  init(_ property: any Property) { self.property = property }

  func fuzz(seed: UInt64, milliseconds: UInt64, executions: UInt64) -> (figures: FuzzFigures, failed: Bool) {
    let trial = Trial(property)
    let failure = trial.run(milliseconds: milliseconds + Self.patience) { [property] trial in
      let end = SteadyClock.nanoseconds() + milliseconds * 1_000_000
      repeat {
        var generator = SplitMix64(seed: seed &+ trial.figures.executions)
        trial.execute(property.draw(&generator))
      } while trial.violation == nil && trial.figures.executions != executions && SteadyClock.nanoseconds() < end
    }
    if failure != nil { failing = trial.input }
    return (trial.figures, failure != nil)
  }

  func shrunkFinding(milliseconds: UInt64) -> Finding {
    let end = SteadyClock.nanoseconds() + milliseconds * 1_000_000
    let shrinker = InputShrinker(head: property.head, grain: property.grain)
    failing = shrinker.shrink(failing) { input in
      guard SteadyClock.nanoseconds() < end, self.traps < Self.trapsMax else { return nil }
      let (failure, _) = self.run(input, keepsSteps: false)
      if failure != nil { self.traps += 1 }
      return failure != nil
    }
    return finding(failing)
      ?? Finding(failing, of: property, "it does not fail again: it depends on more than its input", [])
  }

  func replay(_ example: String) throws(FuzzError) -> Finding? { finding(try ExampleText.input(of: example)) }

  private func finding(_ input: [UInt8]) -> Finding? {
    let (failure, steps) = run(input, keepsSteps: true)
    return failure.map { Finding(input, of: property, $0, steps) }
  }

  private func run(_ input: [UInt8], keepsSteps: Bool) -> (failure: String?, steps: [String]) {
    let trial = Trial(property, keepsSteps: keepsSteps)
    let failure = trial.run(milliseconds: Self.patience) { $0.execute(input) }
    return (failure, trial.log.steps)
  }
}

extension Finding {
  fileprivate init(_ input: [UInt8], of property: any Property, _ message: String, _ steps: [String]) {
    var numbered = steps.enumerated().map { index, step in "\(index + 1)".padded(before: 5) + "  " + step }
    // What goes round and round says the same again and again.
    if numbered.count > 400 { numbered.replaceSubrange(200..<numbered.count - 200, with: ["    …"]) }
    self.init(
      target: property.name, message: message,
      example: ExampleText.text(target: property.name, message: message, input: input),
      timeline: (numbered + ["       FAILS: \(message)"]).joined(separator: "\n"))
  }
}

extension String {
  fileprivate func padded(before width: Int) -> String { String(repeating: " ", count: max(0, width - count)) + self }
}
