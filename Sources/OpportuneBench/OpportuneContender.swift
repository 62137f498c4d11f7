import OpportuneScheduler
import Synchronization

/// Opportune itself: two foreground apps and a background app of one scheduler.
final class OpportuneContender: Contender {
  let name = "opportune"
  let lockFreeNote = "yes"

  private struct Running: Sendable {
    let scheduler: Scheduler
    let interactive: App
    let second: App
    let background: App
  }

  // Written by start() before any thread of the bench sees the contender, so no reader waits for the writer.
  private nonisolated(unsafe) var running: Running?

  func start(_ setup: ContenderSetup) throws {
    let scheduler = try Scheduler(configuration: Scheduler.Configuration())
    running = Running(
      scheduler: scheduler,
      interactive: try scheduler.makeApp(named: "interactive", band: .foreground),
      second: try scheduler.makeApp(named: "second", band: .foreground),
      background: try scheduler.makeApp(named: "indexer", band: .background))
  }

  func stop() async {
    guard let running else { return }
    try? await running.scheduler.shutdown(within: .seconds(5))
  }

  func submitForeground(_ job: @escaping Job) -> Bool { submit(to: running?.interactive, job) }
  func submitSecondForeground(_ job: @escaping Job) -> Bool { submit(to: running?.second, job) }
  func submitBackground(_ job: @escaping Job) -> Bool { submit(to: running?.background, job) }

  func startYieldingHog(_ step: @escaping @Sendable () -> Bool, ended: @escaping Job) -> Bool {
    guard let running else { return false }
    Task(executorPreference: running.interactive.executor) {
      while step() { await Task.yield() }
      ended()
    }
    return true
  }

  private func submit(to app: App?, _ job: @escaping Job) -> Bool {
    guard let app else { return false }
    do {
      try app.submit(job)
      return true
    } catch {
      return false
    }
  }
}

let opportuneKinds = [
  ContenderKind(name: "opportune", place: .everywhere, needsRoot: false) { OpportuneContender() }
]
