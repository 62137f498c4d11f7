import OpportuneBase

/// How a ``Property`` does not hold, by the smallest input that was found.
public struct PropertyFailure: Sendable, Equatable, CustomStringConvertible {
  /// What is wrong: what the ``Violation`` says, a trap, or that there is no end.
  public let message: String
  /// ``Property/check(_:_:)`` fails by it again, unless it depends on more than its input.
  public let input: [UInt8]
  /// What was done, as it was told to the log.
  public let steps: [String]

  /// The steps, and what is wrong, for people.
  public var description: String { Finding.numbered(steps) + "\n       FAILS: \(message)" }
}

extension Property {
  /// Checks random inputs of up to 200 steps, until one fails or so many have held. What fails is made
  /// smaller, for 20 s at most: fewer steps first, then smaller numbers.
  ///
  /// Blocks its caller; the inputs are checked on threads of its own. A trap in ``check(_:_:)``, or an input
  /// that is not done after 20 s, is a failure and ends no program; its thread and what that holds are lost.
  ///
  /// - Parameters:
  ///   - seed: what the inputs follow from: the same seed, the same inputs.
  ///   - executions: how many; at least 1.
  /// - Returns: what fails, or nil.
  /// - Throws: where ``grain``, ``head`` or `executions` is too small; nothing has been checked then.
  public func fuzz(seed: UInt64 = 1, executions: Int) throws(PropertyRangeError) -> PropertyFailure? {
    try PropertyRangeError.check("executions", executions, least: 1)
    try PropertyRangeError.check("grain of the property '\(name)'", grain, least: 1)
    try PropertyRangeError.check("head of the property '\(name)'", head, least: 0)
    let fuzzer = PropertyFuzzer(RandomSteps(property: self))
    let executions = UInt64(executions)
    var done: UInt64 = 0
    while done < executions {
      let (figures, failed) = fuzzer.fuzz(
        seed: seed, first: done, milliseconds: 1000, executions: executions - done)
      if failed { return fuzzer.shrunkFailure(milliseconds: 20_000) }
      done += figures.executions
    }
    return nil
  }
}

/// A number for ``Property/fuzz(seed:executions:)`` that is too small.
public struct PropertyRangeError: Error, Sendable, Equatable, CustomStringConvertible {
  /// Which one.
  public let name: String
  /// What it is.
  public let value: Int
  /// The least that is accepted.
  public let least: Int

  public var description: String { "\(name) is \(value); expected at least \(least)" }

  fileprivate static func check(_ name: String, _ value: Int, least: Int) throws(PropertyRangeError) {
    if value < least { throw PropertyRangeError(name: name, value: value, least: least) }
  }
}

/// A property of others, with inputs for it.
private struct RandomSteps: DrawnProperty {
  let property: any Property

  var name: String { property.name }
  var summary: String { "" }
  var grain: Int { property.grain }
  var head: Int { property.head }

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 1...200, using: &generator))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) { try property.check(input, &log) }
}
