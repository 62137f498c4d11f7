/// What fuzzing one target came to.
public struct TargetOutcome: Sendable, Codable, Equatable {
  public let target: String
  /// Programs run, each under one schedule; inputs checked.
  public let executions: UInt64
  /// Operations on atomics, futexes and timers; steps of an input.
  public let steps: UInt64
  /// Of queues: distinct states in which executions ended, what each thread had done and seen with them. Each thread
  /// counts its own.
  public let states: UInt64
  /// Wall-clock.
  public let seconds: Double
  /// Edges of the checked core that ran, by all runs of the program meanwhile, of how many; none where that is not what is
  /// run.
  public let edgesCovered: Int
  public let edges: Int

  public var executionsPerSecond: Double { seconds > 0 ? Double(executions) / seconds : 0 }
  public var stepsPerSecond: Double { seconds > 0 ? Double(steps) / seconds : 0 }
}

/// What a ``FuzzRun`` came to.
public struct FuzzReport: Sendable {
  public let seed: UInt64
  public let threads: Int
  /// The canaries, which were found first.
  public var selfCheck: [SelfCheck.Result] = []
  public var outcomes: [TargetOutcome]
  public var finding: Finding?
  public var wasInterrupted: Bool
}
