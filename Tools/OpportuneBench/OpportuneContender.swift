import OpportuneScheduler

/// Opportune itself: two foreground apps and a background app of one scheduler.
final class OpportuneContender: Contender {
  let name: String
  let lockFreeNote = "yes"
  private let backgroundClass: BackgroundClass

  private struct Running: Sendable {
    let scheduler: Scheduler
    let interactive: App
    let second: App
    let background: App
  }

  // Written by start() before any thread of the bench sees the contender, so no reader waits for the writer.
  private nonisolated(unsafe) var running: Running?

  init(name: String, backgroundClass: BackgroundClass) {
    self.name = name
    self.backgroundClass = backgroundClass
  }

  func start(_ setup: ContenderSetup) throws {
    var configuration = Scheduler.Configuration()
    configuration.backgroundClass = backgroundClass
    let scheduler = try Scheduler(configuration: configuration)
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

/// As it comes, and, where asked for, with each other class of the background pool.
let opportuneKinds = [
  opportune("opportune", Scheduler.Configuration().backgroundClass, .everywhere),
  opportune("opportune-idle", .idle, .whereNamed),
  opportune("opportune-nice19", .nice19, .whereNamed),
  opportune("opportune-nice19-slice", .nice19LongSlice, .whereNamed),
]

private func opportune(
  _ name: String, _ backgroundClass: BackgroundClass, _ place: ContenderKind.Place
) -> ContenderKind {
  ContenderKind(name: name, place: place, needsRoot: false) {
    OpportuneContender(name: name, backgroundClass: backgroundClass)
  }
}
