/// Code under test, and the judge of its guarantees.
package protocol FuzzTarget: Sendable {
  /// What `--target` names it by.
  var name: String { get }
  /// Its invariants, in a sentence.
  var summary: String { get }
  /// Whether it is fuzzed only when it is named: a canary, which must fail.
  var isHidden: Bool { get }

  /// - Throws: ``FuzzError/noMemory``.
  func makeFuzzer() throws(FuzzError) -> any Fuzzer
}

/// What runs a target. Not thread-safe: one thread at a time, several side by side.
package protocol Fuzzer: AnyObject {
  /// Random executions until one fails or the time is over. An execution depends on the seed and on its
  /// number alone; no two seeds have executions in common.
  ///
  /// - Parameters:
  ///   - first: the number of the first execution.
  ///   - milliseconds: at least 1; looked at every few executions.
  ///   - executions: at most so many; 0: no limit.
  func fuzz(
    seed: UInt64, first: UInt64, milliseconds: UInt64, executions: UInt64
  ) -> (figures: FuzzFigures, failed: Bool)

  /// The last failure, made smaller for at most `milliseconds`.
  func shrunkFinding(milliseconds: UInt64) -> Finding

  /// Runs an example again.
  ///
  /// - Throws: ``FuzzError/badExample(_:)``.
  func replay(_ example: String) throws(FuzzError) -> ExampleRun
}

extension Fuzzer {
  /// From the first execution of the seed.
  package func fuzz(
    seed: UInt64, milliseconds: UInt64, executions: UInt64
  ) -> (figures: FuzzFigures, failed: Bool) {
    fuzz(seed: seed, first: 0, milliseconds: milliseconds, executions: executions)
  }
}

extension Collection<any FuzzTarget> {
  /// - Throws: ``FuzzError/unknownTarget(_:known:)``.
  package func named(_ name: String) throws(FuzzError) -> any FuzzTarget {
    guard let target = first(where: { $0.name == name }) else {
      throw .unknownTarget(name, known: map(\.name))
    }
    return target
  }

  /// The one of these targets that it is an example of.
  ///
  /// - Throws: ``FuzzError/badExample(_:)`` or ``FuzzError/unknownTarget(_:known:)``.
  package func target(ofExample example: String) throws(FuzzError) -> any FuzzTarget {
    try named(ExampleText.target(of: example))
  }

  /// Runs an example of one of these targets again.
  ///
  /// - Throws: ``FuzzError/badExample(_:)`` or ``FuzzError/unknownTarget(_:known:)``.
  package func replay(_ example: String) throws(FuzzError) -> ExampleRun {
    try target(ofExample: example).makeFuzzer().replay(example)
  }
}

/// What a caller handed over is wrong.
package enum FuzzError: Error, Equatable, CustomStringConvertible {
  case unknownTarget(String, known: [String])
  /// An example's text.
  case badExample(String)
  /// The bug that is planted in this canary was not found in time: the fuzzer does not look.
  case blind(String, seconds: Double)
  case noMemory
  /// No more threads than so many can be started.
  case noThread(Int)

  package var description: String {
    switch self {
    case .unknownTarget(let name, let known):
      "'\(name)' is not a target; there are \(known.joined(separator: ", "))"
    case .badExample(let reason): "the example cannot be read: \(reason)"
    case .blind(let name, let seconds):
      "the bug planted in '\(name)' was not found in \(seconds) s, so finding nothing elsewhere means nothing"
    case .noMemory: "memory is short"
    case .noThread(let count): "no more than \(count) threads can be started"
    }
  }
}
