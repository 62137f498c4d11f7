internal import COpportune
import Logging

/// A scheduler: apps in bands, and the workers that run their work.
///
/// It takes nothing of the process but threads: no signal handler, no allocator, no main thread. Several may
/// live side by side. Without privilege it works with what there is; `opportune doctor` says what that costs.
///
/// ```swift
/// let scheduler = try Scheduler()
/// let ui = try scheduler.makeApp(named: "ui", band: .foreground)
/// let indexer = try scheduler.makeApp(named: "indexer", band: .background)
/// indexer.task { await index() }
/// let answer = try await ui.task { answer(query) }.value
/// ```
///
/// All members may be used from any thread. Keep it for as long as its apps are used: with the last reference
/// to it goes what makes them accept work. What is queued by then still runs, new closures are refused with
/// `shutDown`, and tasks go on in the language's global pool.
public final class Scheduler: Sendable {
  /// What a scheduler is made with.
  public typealias Configuration = SchedulerConfiguration

  let engine: Engine

  /// What it was made with.
  public var configuration: Configuration { engine.configuration }

  /// Makes a scheduler and starts its threads: one more than there are usable CPUs for each pool, and a
  /// monitor. They sleep until there is work. Where the kernel allows few it starts fewer, three at least;
  /// the foreground then has most of them, and the logger is told.
  ///
  /// - Parameters:
  ///   - configuration: checked first.
  ///   - logger: for the few events worth a line; says nothing by default.
  /// - Throws: ``SchedulerError``: `configuration`, `outOfMemory`, `threadsUnavailable`.
  public init(
    configuration: Configuration = Configuration(),
    logger: Logger = Logger(label: "opportune", factory: { _ in SwiftLogNoOpLogHandler() })
  ) throws(SchedulerError) {
    do {
      try configuration.validate()
    } catch {
      throw SchedulerError(.configuration, "\(error)")
    }
    engine = try Engine(configuration, logger)
    if configuration.countsEscapes, !EscapeHook.install() {
      logger.warning("this Swift runtime has no enqueue hook: tasks that escape are not counted")
    }
  }

  deinit {
    // Not shut down: what is queued still runs, then the threads end.
    guard !engine.isForked, engine.beginDraining() else { return }
    let monitor = engine.monitor
    Task.detached {
      _ = await withCheckedContinuation { monitor.post(.shutDown(within: .seconds(86_400), $0)) }
    }
  }

  /// Tells the logger, of the layers above.
  package func warn(_ sentence: String) { engine.log(.warning, "\(sentence)", [:]) }

  /// Makes an app.
  ///
  /// - Parameters:
  ///   - name: for people; need not be unique.
  ///   - band: where it starts.
  /// - Throws: ``SchedulerError``: `tooManyApps`, `poolDisabled`, `shutDown`, `forked`, `outOfMemory`.
  public func makeApp(named name: String, band: Band = .foreground) throws(SchedulerError) -> App {
    try engine.checkAccepts()
    try engine.requirePool(for: band)
    let core = try AppCore(engine: engine, name: name, band: band)
    engine.monitor.post(.added(core.record))
    return App(core: core)
  }

  /// How many workers of a pool run at once: usable CPUs or the CPU quota, followed as they change, or the
  /// setting.
  public var width: Int { engine.width }

  /// Shuts the scheduler down: refuses new closures, runs what is queued, ends the threads.
  ///
  /// Closures of suspended apps, and those that the deadline cuts off, are cancelled, once each. Tasks are
  /// not: what is left of them goes on in the language's global pool, because a task can only end by itself.
  ///
  /// - Parameter limit: how long to wait for jobs that run or are queued.
  /// - Throws: ``SchedulerError``: `jobsStillRunning` if a job does not end within the limit; the message
  ///   names its app. Its thread ends when the job does. `shutDown` if it was called before; `forked` in the
  ///   child of a `fork()`.
  public func shutdown(within limit: Duration = .seconds(10)) async throws(SchedulerError) {
    try engine.checkFork()
    guard engine.beginDraining() else {
      throw SchedulerError(.shutDown, "scheduler \"\(configuration.name)\" was shut down before")
    }
    let stuck = await withCheckedContinuation { engine.monitor.post(.shutDown(within: limit, $0)) }
    guard stuck.isEmpty else {
      let names = stuck.map { "\"\($0)\"" }.joined(separator: ", ")
      engine.logger.warning("jobs do not end", metadata: ["apps": "\(names)"])
      throw SchedulerError(
        .jobsStillRunning,
        "after \(limit) jobs of these apps had not ended: \(names); their threads go on until they do")
    }
  }

  /// What all apps have done, and what the pools look like now; after the shutdown, what they had done until
  /// then. Without apps in the child of a `fork()`.
  public func statistics() async -> SchedulerStatistics {
    guard !engine.isForked else { return SchedulerStatistics(engine, Monitor.Snapshot()) }
    let known = await withCheckedContinuation { engine.monitor.post(.snapshot($0)) }
    return SchedulerStatistics(engine, known)
  }
}

extension Engine {
  func requirePool(for band: Band) throws(SchedulerError) {
    guard band == .realTime, !configuration.pools.contains(.realTime) else { return }
    throw SchedulerError(
      .poolDisabled, "band realTime needs the real-time pool; the configuration's pools leave it out")
  }
}
