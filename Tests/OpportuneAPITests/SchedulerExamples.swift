import Opportune
import TestSupport
import Testing

/// The examples of docs/api.md, between `docs:` and `end`; `PageTests` compares them. Built without the
/// package's own access level.
@Suite(.bounded) struct SchedulerExamples {
  @Test func apps() throws {
    // docs: apps
    let scheduler = try Scheduler()
    let ui: App = try scheduler.makeApp(named: "ui", band: .foreground)
    let indexer = try scheduler.makeApp(named: "indexer", band: .background)
    try ui.submit { print("starts at once, whatever the indexer does") }
    try indexer.setBand(Band.foreground)  // with all that waits in it
    indexer.suspend()  // nothing more of it starts; what is queued stays
    indexer.resume()
    // end
    #expect(indexer.band == .foreground)
  }

  @Test func tasks() async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "ui")
    // docs: tasks
    let task: AppTask<Int, Never> = app.task(priority: .high) { 6 * 7 }
    let answer = await task.value
    // end
    #expect(answer == 42)
  }

  @Test func executors() async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "ui")
    // docs: executors
    let executor: AppExecutor = app.executor
    let sum = await withTaskExecutorPreference(executor) { (1...10).reduce(0, +) }
    // end
    #expect(sum == 55)
  }

  @Test func strands() async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "store")
    // docs: strands
    actor Journal {
      private let strand: Strand
      private var lines: [String] = []

      init(_ strand: Strand) { self.strand = strand }
      nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

      func add(_ line: String) -> Int {
        lines.append(line)
        return lines.count
      }
    }

    let journal = Journal(try app.makeStrand(named: "journal"))
    let count = await journal.add("opened")
    // end
    #expect(count == 1)
  }

  @Test func clocks() async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "ui")
    // docs: clocks
    let clock: AppClock = app.clock
    let start = clock.now
    try await clock.sleep(for: .milliseconds(1), tolerance: .milliseconds(1))
    let slept = start.duration(to: clock.now)
    // end
    #expect(slept >= .milliseconds(1))
  }

  @Test func configuration() throws {
    // docs: configuration
    var configuration = SchedulerConfiguration()
    configuration.name = "player"
    configuration.pools.insert(.realTime)
    let scheduler = try Scheduler(configuration: configuration)
    // end
    #expect(scheduler.configuration.name == "player")
  }

  @Test func statistics() throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "ui")
    // docs: statistics
    let statistics: AppStatistics = app.statistics
    let waited = statistics.waiting.quantile(0.99) ?? .zero
    print("\(statistics.jobs) jobs; 99 of 100 waited \(waited) at most")
    // end
    #expect(statistics.name == "ui")
  }

  @Test func errors() async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "ui")
    try await scheduler.shutdown()
    var isOver = false
    // docs: errors
    do throws(SchedulerError) {
      try app.submit {}
    } catch {
      isOver = error.code == .shutDown
    }
    // end
    #expect(isOver)
  }
}
