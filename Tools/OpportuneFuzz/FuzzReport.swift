/// The result of fuzzing one target.
package struct TargetOutcome: Sendable, Codable, Equatable {
  package let target: String
  /// Programs run, each under one schedule; inputs checked.
  package let executions: UInt64
  /// Operations on atomics, futexes and timers; steps of an input.
  package let steps: UInt64
  /// Of queues: distinct states in which executions ended, what each thread had done and seen with them. Each
  /// thread counts its own.
  package let states: UInt64
  /// Wall-clock.
  package let seconds: Double
  /// Edges of the checked core that ran, by all runs of the program meanwhile, of how many; none where that
  /// is not what is run.
  package let edgesCovered: Int
  package let edges: Int

  package var executionsPerSecond: Double { seconds > 0 ? Double(executions) / seconds : 0 }
  package var stepsPerSecond: Double { seconds > 0 ? Double(steps) / seconds : 0 }
}

/// What a ``FuzzRun`` came to.
package struct FuzzReport: Sendable, Encodable {
  package let seed: UInt64
  package let threads: Int
  /// The canaries, which were found first.
  package var selfCheck: [SelfCheck.Result] = []
  package var outcomes: [TargetOutcome]
  /// One of each target that failed.
  package var findings: [Finding]
  package var wasInterrupted: Bool

  private enum CodingKeys: String, CodingKey {
    case seed, threads, wasInterrupted, selfCheck, findings
    case outcomes = "targets"
  }
}
