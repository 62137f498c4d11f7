import OpportuneApps
import OpportuneLocation

/// A recording as it was recorded, in live time: what was seen a minute after its first fix comes a minute
/// after the start. In virtual time that is ``LocationReplay``.
///
/// What is late, since the host slept, comes with the time that it was due at. Safe to use from any thread.
package struct TraceSource: LocationSource {
  private let trace: LocationTrace
  private let start: ContinuousClock.Instant

  /// - Parameter start: the host's moment zero, from which the fixes' times count.
  package init(_ trace: LocationTrace, start: ContinuousClock.Instant = .now) {
    self.trace = trace
    self.start = start
  }

  package var kind: SourceKind { trace.fixes.first?.source ?? .satellite }

  /// Begins with the first fix, and ends after the last. Updates that are not read yet wait.
  package func updates() -> AsyncStream<SourceUpdate> {
    AsyncStream { continuation in
      let task = Task {
        await run(continuation)
        continuation.finish()
      }
      continuation.onTermination = { _ in task.cancel() }
    }
  }

  private func run(_ updates: AsyncStream<SourceUpdate>.Continuation) async {
    let began = ContinuousClock.now
    func wait(until moment: Moment) async -> Bool {
      try? await Task.sleep(until: began + (moment - .zero), clock: .continuous)
      return !Task.isCancelled
    }
    updates.yield(.available(true))
    var cells = trace.cells[...]
    for var fix in trace.fixes {
      while let cell = cells.first, cell.time <= fix.time {
        guard await wait(until: cell.time) else { return }
        updates.yield(.cell(cell.number))
        cells.removeFirst()
      }
      guard await wait(until: fix.time) else { return }
      fix.time = .zero + start.duration(to: began) + (fix.time - .zero)
      updates.yield(.fix(fix))
    }
  }
}
