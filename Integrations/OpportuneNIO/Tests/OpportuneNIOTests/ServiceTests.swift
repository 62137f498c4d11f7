import COpportune
import Foundation
import Hummingbird
import Logging
import NIOConcurrencyHelpers
import NIOPosix
import Opportune
import OpportuneNIO
import ServiceLifecycle
import Testing

@Suite(.serialized, .timeLimit(.minutes(1))) struct ServiceTests {
  /// Runs at its start and when its turn to end has come.
  private struct Noting: Service {
    let name: String
    let events: Events
    var gate = Gate()
    func run() async throws {
      try? await gracefulShutdown()
      events.add(name)
      gate.open()
    }
  }

  /// Opens a gate for a request to `/reports`, which then goes on.
  private struct Arrival: RouterMiddleware {
    let gate: Gate
    func handle(
      _ request: Request, context: BasicRequestContext,
      next: (Request, BasicRequestContext) async throws -> Response
    ) async throws -> Response {
      if request.uri.path == "/reports" { gate.open() }
      return try await next(request, context)
    }
  }

  // R-FTS-09
  @Test(arguments: [false, true])
  func theServerStopsThenWhatWasLeftIsDoneThenTheSchedulerEnds(onApp: Bool) async throws {
    let scheduler = try makeScheduler()
    let ui = try scheduler.makeApp(named: "ui")
    let reports = try scheduler.makeApp(named: "reports", band: .background)
    let (events, port) = (Events(), NIOLockedValueBox(0))
    let (listening, arrived, stopped) = (Gate(), Gate(), Gate())
    let drain = AppDrain(within: .seconds(30))
    let router = Router()
    router.add(middleware: Arrival(gate: arrived))
    router.add(middleware: RunOnApps(ui, routes: [AppRoute("/reports", on: reports)]))
    router.get("/ready") { _, _ in poolOfThread() ?? "elsewhere" }
    router.get("/reports") { _, _ in
      drain.task(on: reports) {
        await stopped.wait()
        events.add("left \(poolOfThread() ?? "elsewhere")")
      }
      events.add("handler \(poolOfThread() ?? "elsewhere")")
      return "report"
    }
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    var application = Application(
      router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
      onServerRunning: { channel in
        port.withLockedValue { $0 = channel.localAddress?.port ?? 0 }
        listening.open()
      }, eventLoopGroupProvider: .singleton, logger: logger)
    application.addServices(Noting(name: "inner", events: events))
    let server: any Service = onApp ? ServiceOnApp(application, on: ui) : application
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: [
          SchedulerService(scheduler), drain,
          Noting(name: "server stopped", events: events, gate: stopped), server,
        ], logger: logger))
    let running = Task { try await group.run() }
    await listening.wait()
    let number = port.withLockedValue { $0 }
    #expect(try await fetch("/ready", port: number).hasSuffix("fg"))

    // One that waits in a suspended app must be answered all the same.
    reports.suspend()
    let answer = Task { try await fetch("/reports", port: number) }
    await arrived.wait()
    await group.triggerGracefulShutdown()
    let received = try await answer.value
    #expect(received.hasPrefix("HTTP/1.1 200") && received.hasSuffix("report"))
    try await running.value
    #expect(events.all == ["handler bg", "inner", "server stopped", "left bg"])
    #expect(throws: SchedulerError.self) { try ui.submit {} }
  }

  @Test func whatDoesNotEndIsCancelledAndThenNamed() async throws {
    let scheduler = try makeScheduler()
    let app = try scheduler.makeApp(named: "mailer", band: .background)
    let drain = AppDrain(within: .milliseconds(50))
    let sleeping = drain.task(on: app) { try await Task.sleep(for: .seconds(3600)) }
    // Cancelled as the shutdown is; it still drains.
    let first = Task { try await drain.run() }
    first.cancel()
    try await first.value
    #expect(sleeping.isCancelled && drain.count == 0)

    let gate = Gate()
    let stuck = AppDrain(within: .milliseconds(50))
    let task = stuck.task(on: app) { await gate.wait() }
    let second = Task { try await stuck.run() }
    second.cancel()
    let error = await #expect(throws: AppDrainError.self) { try await second.value }
    #expect(error?.code == .tasksStillRunning && error?.message.contains("\"mailer\"") == true)
    // From then on none begins that would go on for long.
    #expect(stuck.task(on: app) {}.isCancelled)
    gate.open()
    try await task.value
    try await scheduler.shutdown()
  }

  // R-CPU-01
  @Test func eventLoopsHaveTheForegroundsClass() async throws {
    let scheduler = try makeScheduler()
    let loops = MultiThreadedEventLoopGroup(numberOfThreads: 2)
    @Sendable func settings() -> (nice: Int, slice: UInt64) {
      var own = opp_sched_params()
      _ = opp_thread_get_sched(0, &own)
      return (Int(own.nice), own.slice_ns)
    }
    // As its own workers.
    let wanted = try await scheduler.makeApp(named: "ui").task { settings() }.value
    if geteuid() == 0 {
      for loop in loops.makeIterator() {
        try await loop.submit {
          _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), UInt32(opp_thread_id()), 7)
        }.get()
      }
    }
    let counts = try await scheduler.putInForeground(loops)
    #expect(counts.loops == 2 && counts.raised == 2)
    for loop in loops.makeIterator() {
      let got = try await loop.submit { settings() }.get()
      #expect(got == wanted)
    }
    try await loops.shutdownGracefully()
    try await scheduler.shutdown()
  }
}
