internal import COpportune
import Logging

/// A scheduler: apps in bands, and the workers that run their jobs.
///
/// It uses no process-wide resource but threads: no signal handler, no allocator, no main thread. Several
/// schedulers may exist side by side. It also works without privileges; `opportune doctor` says what that
/// costs.
///
/// ```swift
/// let scheduler = try Scheduler()
/// let ui = try scheduler.makeApp(named: "ui", band: .foreground)
/// let indexer = try scheduler.makeApp(named: "indexer", band: .background)
/// indexer.task { await index() }
/// let answer = await ui.task { answer(query) }.value
/// ```
///
/// All members may be used from any thread. Keep the scheduler for as long as its apps are used. When the
/// last reference to it is released, queued jobs still run, new closures are refused with `shutDown`, and
/// tasks continue in the language's global pool.
public final class Scheduler: Sendable {
  /// The settings of a scheduler.
  public typealias Configuration = SchedulerConfiguration

  let engine: Engine

  /// The settings with which the scheduler was made.
  public var configuration: Configuration { engine.configuration }

  /// Makes a scheduler and starts its threads: for each pool one more than may run at once, and a monitor. As
  /// many may run as there are usable CPUs, and twice as many of the foreground, unless
  /// ``Configuration/workers`` is fixed.
  ///
  /// The threads sleep until there is work. Where the kernel allows only few threads, fewer are started,
  /// three at least. The foreground then has most of them, and a warning is logged.
  ///
  /// - Parameters:
  ///   - configuration: validated first.
  ///   - logger: receives the few events worth a line; logs nothing by default.
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
    guard engine.beginDraining() else { return }
    let monitor = engine.monitor
    Task.detached {
      _ = await withCheckedContinuation { monitor.post(.shutDown(within: .seconds(86_400), $0)) }
    }
  }

  /// Logs a warning on behalf of the layers above.
  package func warn(_ sentence: String) { engine.log(.warning, "\(sentence)", [:]) }

  /// Makes an app.
  ///
  /// - Parameters:
  ///   - name: for people; need not be unique.
  ///   - band: where it starts.
  /// - Throws: ``SchedulerError``: `tooManyApps`, `poolDisabled`, `shutDown`, `outOfMemory`.
  public func makeApp(named name: String, band: Band = .foreground) throws(SchedulerError) -> App {
    try engine.checkAccepts()
    try engine.requirePool(for: band)
    let core = try AppCore(engine: engine, name: name, band: band)
    engine.monitor.post(.added(core.record))
    return App(core: core)
  }

  /// Gives the calling thread the kernel's class of foreground workers: nice value and slice.
  ///
  /// For threads that the program has not from this library, and that foreground work waits for: an event
  /// loop that hands requests to an app. A shorter slice makes the kernel run the thread soon after it is
  /// woken. The thread keeps this for good. It is neither demoted nor bounded, so it gets no real-time class
  /// (``ForegroundClass``), and it should compute little. Safe on any thread; blocks nothing. (R-CPU-01)
  ///
  /// - Returns: whether the kernel has accepted the nice value. Without privilege a thread that was lowered
  ///   before gets the slice alone.
  @discardableResult
  public func putCallingThreadInForeground() -> Bool {
    KernelPriority.monitor([], engine.privileges).applyToNewThread()
  }

  /// The number of usable CPUs or the CPU quota, followed as they change, or the fixed setting. So many
  /// workers of a pool run at once, but twice as many of the foreground unless the setting is fixed.
  public var width: Int { engine.width }

  /// Shuts the scheduler down: refuses new closures, runs what is queued, ends the threads.
  ///
  /// Closures of suspended apps, and closures that the deadline cuts off, are cancelled, once each. Tasks are
  /// not cancelled, since a task can only end by itself: they continue in the language's global pool.
  ///
  /// - Parameter limit: how long to wait for jobs that run or are queued.
  /// - Throws: ``SchedulerError``: `jobsStillRunning` if a job does not end within the limit; the message
  ///   names its app. Its thread ends when the job does. `shutDown` if it was called before.
  public func shutdown(within limit: Duration = .seconds(10)) async throws(SchedulerError) {
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
  /// then.
  public func statistics() async -> SchedulerStatistics {
    let known = await withCheckedContinuation { engine.monitor.post(.snapshot(engine, $0)) }
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
