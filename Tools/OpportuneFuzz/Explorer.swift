import COpportuneChecked
import COpportuneExplorer

/// Runs programs of a target under chosen schedules. Not thread-safe: one thread at a time, several explorers
/// side by side.
package final class Explorer {
  private let raw: OpaquePointer
  private let finding: UnsafeMutablePointer<oppx_finding>

  /// - Throws: ``FuzzError/noMemory``.
  package init() throws(FuzzError) {
    guard let raw = oppx_create() else { throw .noMemory }
    guard let finding = oppx_finding_create() else {
      oppx_destroy(raw)
      throw .noMemory
    }
    self.raw = raw
    self.finding = finding
  }

  deinit {
    oppx_finding_destroy(finding)
    oppx_destroy(raw)
  }

  /// Random programs under random schedules, until one fails or the time is over. An execution depends on the
  /// seed and on its number alone; no two seeds have executions in common.
  ///
  /// - Parameters:
  ///   - first: the number of the first execution.
  ///   - milliseconds: at least 1; looked at every 16 executions.
  ///   - executions: at most so many; 0: no limit.
  package func fuzz(
    _ target: QueueTarget, seed: UInt64, first: UInt64 = 0, milliseconds: UInt64, executions: UInt64 = 0
  ) -> (figures: FuzzFigures, failed: Bool) {
    var figures = oppx_figures()
    let budget = oppx_budget(stop: nil, executions: executions, milliseconds: milliseconds, first: first)
    oppx_fuzz(raw, target.raw, nil, seed, budget, &figures, finding)
    return (FuzzFigures(figures), oppx_finding_found(finding))
  }

  /// The last failure, made smaller for at most `milliseconds`.
  package func shrunkFinding(of target: QueueTarget, milliseconds: UInt64) -> Finding {
    oppx_shrink(raw, target.raw, finding, milliseconds)
    return currentFinding(of: target)
  }

  /// Runs an example again.
  ///
  /// - Throws: ``FuzzError/badExample(_:)`` or ``FuzzError/unknownTarget(_:known:)``.
  package func replay(_ example: String) throws(FuzzError) -> ExampleRun {
    let target = try Self.target(of: example)
    var error = [CChar](repeating: 0, count: Int(OPPX_TEXT))
    guard oppx_finding_parse(target.raw, example, finding, &error) == 0 else {
      throw .badExample(error.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" })
    }
    let failed = oppx_replay(raw, target.raw, finding)
    let misfit = oppx_finding_misfit(finding)
    return ExampleRun(
      finding: failed ? currentFinding(of: target) : nil, timeline: timeline(of: target),
      misfit: misfit == 0
        ? nil : "the schedule no longer fits the code: there is no such choice as number \(misfit)")
  }

  /// Explores a world to its end, or until it fails or the time is over (0: no limit).
  package func exhaust(_ world: World, milliseconds: UInt64) -> (figures: FuzzFigures, finding: Finding?) {
    var figures = oppx_figures()
    let budget = oppx_budget(stop: nil, executions: 0, milliseconds: milliseconds, first: 0)
    checked_explore_world(raw, world.raw, budget, &figures, finding)
    guard oppx_finding_found(finding), let target = try? QueueTarget.named(world.target) else {
      return (FuzzFigures(figures), nil)
    }
    return (FuzzFigures(figures), shrunkFinding(of: target, milliseconds: 5000))
  }

  private func currentFinding(of target: QueueTarget) -> Finding {
    Finding(
      target: target.name, message: String(cString: oppx_finding_message(finding)),
      example: text { oppx_finding_print(target.raw, finding, $0, $1) },
      timeline: timeline(of: target))
  }

  private func timeline(of target: QueueTarget) -> String {
    text { oppx_timeline(raw, target.raw, finding, $0, $1) }
  }

  private static func target(of example: String) throws(FuzzError) -> QueueTarget {
    var name = [CChar](repeating: 0, count: 64)
    guard oppx_finding_target(example, &name, name.count) == 0 else {
      throw .badExample("there is no line 'target: …'")
    }
    return try QueueTarget.named(
      name.withUnsafeBufferPointer { $0.baseAddress.map { String(cString: $0) } ?? "" })
  }
}

/// What was run.
package struct FuzzFigures: Sendable, Equatable, Codable {
  /// Schedules begun.
  package var executions: UInt64 = 0
  /// Operations on atomics, futexes and timers.
  package var steps: UInt64 = 0
  /// Distinct states: at which a thread was chosen, in exhaustive exploration; in which executions ended, as
  /// far as this explorer has met them, in random ones. The latter is too low above some tens of millions.
  package var states: UInt64 = 0
  /// Nothing within the bounds is left to explore.
  package var isComplete = false

  package init() {}

  init(_ raw: oppx_figures) {
    executions = raw.executions
    steps = raw.steps
    states = raw.states
    isComplete = raw.complete
  }

  /// Adds another series of the same target.
  package mutating func add(_ other: FuzzFigures) {
    executions += other.executions
    steps += other.steps
    states += other.states
    isComplete = isComplete || other.isComplete
  }
}

/// Begins to count edges anew, for all threads of the program.
func beginCoverage() { oppx_coverage_begin() }

/// Edges of the checked code that ran since the last ``FuzzRun`` came to a target, of how many.
package func coverage() -> (covered: Int, edges: Int) {
  var covered = 0
  var edges = 0
  oppx_coverage(&covered, &edges)
  return (covered, edges)
}
