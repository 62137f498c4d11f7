import Dispatch
import Synchronization

/// Fuzzes targets one after another, each on several threads, until it fails, its time is over or the caller
/// stops the run.
package struct FuzzRun: Sendable {
  /// At least one.
  package var targets: [any FuzzTarget]
  /// For each target; above 0.
  package var seconds: Double
  package var seed: UInt64
  /// 1 to 1024, each a thread of its own.
  package var threads: Int
  /// Asked every tenth of a second.
  package var isInterrupted: @Sendable () -> Bool
  /// Called about twice a second, on the caller's thread.
  package var progress: (@Sendable (TargetOutcome) -> Void)?
  /// Called with the failure of a target as it was met, before it is made smaller, which takes up to 20 s;
  /// on another thread.
  package var found: (@Sendable (Finding) -> Void)?

  package init(
    targets: [any FuzzTarget], seconds: Double, seed: UInt64, threads: Int,
    isInterrupted: @escaping @Sendable () -> Bool = { false },
    progress: (@Sendable (TargetOutcome) -> Void)? = nil
  ) {
    self.targets = targets
    self.seconds = seconds
    self.seed = seed
    self.threads = threads
    self.isInterrupted = isInterrupted
    self.progress = progress
  }

  /// Blocks until all is done. A target ends with its first failure; the others go on.
  ///
  /// - Throws: ``FuzzError/noMemory``, ``FuzzError/noThread(_:)``.
  package func run() throws(FuzzError) -> FuzzReport {
    var report = FuzzReport(seed: seed, threads: threads, outcomes: [], findings: [], wasInterrupted: false)
    for target in targets where !report.wasInterrupted {
      let (outcome, finding) = try run(target)
      report.outcomes.append(outcome)
      if let finding { report.findings.append(finding) }
      report.wasInterrupted = isInterrupted()
    }
    return report
  }

  private func run(_ target: any FuzzTarget) throws(FuzzError) -> (TargetOutcome, Finding?) {
    let shared = Shared(target: target.name, countsEdges: target is QueueTarget)
    if target is QueueTarget { beginCoverage() }
    let begun = DispatchTime.now()
    let end = begun + seconds
    let group = DispatchGroup()
    do {
      try OwnThreads.start(threads, group: group) { thread in
        // Numbers of the threads lie apart by more than any of them can use up.
        fuzz(target, first: UInt64(thread) << 40, until: end, shared)
      }
    } catch {
      shared.stop()
      group.wait()
      throw error
    }
    while group.wait(timeout: .now() + 0.5) == .timedOut {
      if isInterrupted() { shared.stop() }
      progress?(shared.outcome(since: begun))
    }
    if shared.isShortOfMemory { throw .noMemory }
    return (shared.outcome(since: begun), shared.finding)
  }

  private func fuzz(_ target: any FuzzTarget, first: UInt64, until end: DispatchTime, _ shared: Shared) {
    guard let fuzzer = try? target.makeFuzzer() else { return shared.noteShortOfMemory() }
    var first = first
    while !shared.isStopped, DispatchTime.now() < end {
      let left =
        (end.uptimeNanoseconds - min(end.uptimeNanoseconds, DispatchTime.now().uptimeNanoseconds)) / 1_000_000
      let (figures, failed) = fuzzer.fuzz(
        seed: seed, first: first, milliseconds: max(1, min(100, left)), executions: 0)
      shared.add(figures)
      first &+= figures.executions
      if failed {
        guard shared.isFirstToFail() else { return }
        found?(fuzzer.shrunkFinding(milliseconds: 0))
        shared.note(fuzzer.shrunkFinding(milliseconds: 20_000))
      } else if isInterrupted() {
        shared.stop()
      }
    }
  }
}

/// What the threads of one target share.
private final class Shared: Sendable {
  private struct State {
    var figures = FuzzFigures()
    var finding: Finding?
    var hasFailed = false
    var isShortOfMemory = false
  }

  private let target: String
  private let countsEdges: Bool
  private let state = Mutex(State())
  private let stopped = Atomic<Bool>(false)

  init(target: String, countsEdges: Bool) {
    self.target = target
    self.countsEdges = countsEdges
  }

  // relaxed: a wish, which publishes nothing.
  var isStopped: Bool { stopped.load(ordering: .relaxed) }
  func stop() { stopped.store(true, ordering: .relaxed) }

  func add(_ figures: FuzzFigures) { state.withLock { $0.figures.add(figures) } }
  func note(_ finding: Finding) { state.withLock { $0.finding = finding } }
  func isFirstToFail() -> Bool {
    stop()
    return state.withLock { state in
      defer { state.hasFailed = true }
      return !state.hasFailed
    }
  }
  func noteShortOfMemory() { state.withLock { $0.isShortOfMemory = true } }
  var finding: Finding? { state.withLock { $0.finding } }
  var isShortOfMemory: Bool { state.withLock { $0.isShortOfMemory } }

  func outcome(since begun: DispatchTime) -> TargetOutcome {
    let seconds = Double(DispatchTime.now().uptimeNanoseconds - begun.uptimeNanoseconds) / 1e9
    let (covered, edges) = countsEdges ? coverage() : (0, 0)
    let figures = state.withLock { $0.figures }
    return TargetOutcome(
      target: target, executions: figures.executions, steps: figures.steps, states: figures.states,
      seconds: seconds,
      edgesCovered: covered, edges: edges)
  }
}
