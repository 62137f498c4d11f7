import Hummingbird
import NIOConcurrencyHelpers
import Opportune
import OpportuneNIO
import Testing

private struct Refused: Error, Equatable { let number: Int }

private enum Local { @TaskLocal static var value = "outside" }

@Suite(.serialized, .timeLimit(.minutes(1))) struct RunOnAppsTests {
  /// Most routes on `ui`; those of `/reports` on `reports`, in the background.
  private struct Server {
    let scheduler: Scheduler
    let ui: App
    let reports: App
    let router = Router()

    init() throws {
      scheduler = try makeScheduler()
      ui = try scheduler.makeApp(named: "ui")
      reports = try scheduler.makeApp(named: "reports", band: .background)
      router.add(
        middleware: RunOnApps(
          ui,
          routes: [AppRoute("/reports", on: reports), AppRoute("/reports/urgent", on: ui, isMarked: false)]))
    }
  }

  // R-CPU-01
  @Test func handlersRunOnTheWorkersOfTheirRoutesApp() async throws {
    let server = try Server()
    for path in ["/users/{id}", "/reports", "/reports/{id}/lines", "/reports/urgent", "/reportsettings"] {
      server.router.get(RouterPath(path)) { _, _ in poolOfThread() ?? "elsewhere" }
    }
    let responder = server.router.buildResponder()
    #expect(try await text(responder, "/users/7") == "fg")
    #expect(try await text(responder, "/reports") == "bg")
    #expect(try await text(responder, "/reports/7/lines") == "bg", "what is below goes with it")
    #expect(try await text(responder, "/reports/urgent") == "fg", "the longest path counts")
    #expect(try await text(responder, "/reportsettings") == "fg", "by whole parts")
    #expect(try await respond(responder, "/nowhere").status == .notFound)
    try await server.scheduler.shutdown()
  }

  @Test func laterMiddlewareIsOnTheAppAndEarlierIsNot() async throws {
    struct Noting: RouterMiddleware {
      let name: String
      let events: Events
      func handle(
        _ request: Request, context: BasicRequestContext,
        next: (Request, BasicRequestContext) async throws -> Response
      ) async throws -> Response {
        events.add("\(name) \(poolOfThread() ?? "elsewhere")")
        defer { events.add("\(name) \(poolOfThread() ?? "elsewhere")") }
        return try await next(request, context)
      }
    }
    let (scheduler, events, router) = (try makeScheduler(), Events(), Router())
    let ui = try scheduler.makeApp(named: "ui")
    router.add(middleware: Noting(name: "before", events: events))
    router.add(middleware: RunOnApps(ui))
    router.add(middleware: Noting(name: "after", events: events))
    router.get("/") { _, _ in Local.value }
    let responder = router.buildResponder()
    let answer = try await Local.$value.withValue("inside") { try await text(responder, "/") }
    #expect(answer == "inside", "task-local values go along")
    #expect(events.all == ["before elsewhere", "after fg", "after fg", "before elsewhere"])
    try await scheduler.shutdown()
  }

  // R-FTS-09
  @Test func aSuspendedAppsHandlersWaitAndOthersDoNot() async throws {
    let server = try Server()
    let ran = Gate()
    server.router.get("/reports") { _, _ in
      ran.open()
      return "report"
    }
    server.router.get("/") { _, _ in "page" }
    let responder = server.router.buildResponder()
    server.reports.suspend()
    let waiting = Task { try await text(responder, "/reports") }
    for _ in 0..<200 { #expect(try await text(responder, "/") == "page") }
    #expect(!ran.isOpen)
    server.reports.resume()
    #expect(try await waiting.value == "report")
    try await server.scheduler.shutdown()
  }

  @Test func aCancelledRequestCancelsTheTaskOfTheHandler() async throws {
    let server = try Server()
    let (begun, seen) = (Gate(), Gate())
    server.router.get("/") { _, _ in
      begun.open()
      do {
        try await Task.sleep(for: .seconds(3600))
      } catch {
        if Task.isCancelled { seen.open() }
        throw error
      }
      return "slept"
    }
    let responder = server.router.buildResponder()
    let request = Task { try await text(responder, "/") }
    await begun.wait()
    request.cancel()
    await #expect(throws: CancellationError.self) { try await request.value }
    #expect(seen.isOpen)
    try await server.scheduler.shutdown()
  }

  @Test func errorsPassThrough() async throws {
    let server = try Server()
    server.router.get("/own") { _, _ -> String in throw Refused(number: 7) }
    server.router.get("/http") { _, _ -> String in throw HTTPError(.conflict, message: "taken") }
    let responder = server.router.buildResponder()
    await #expect(throws: Refused(number: 7)) { try await respond(responder, "/own") }
    #expect(try await respond(responder, "/http").status == .conflict)
    try await server.scheduler.shutdown()
  }

  // R-CPU-01
  @Test func markedRequestsCountForTheTargetAndOthersDoNot() async throws {
    let server = try Server()
    for path in ["/", "/reports/urgent"] as [RouterPath] {
      server.router.get(path) { _, _ in
        try await Task.sleep(for: .milliseconds(1))
        return "late"
      }
    }
    let responder = server.router.buildResponder()
    try server.ui.target(.latency(p99: .microseconds(100)))
    let stop = Gate()
    // Background that uses all that it may have.
    for _ in 0..<4 { server.reports.task { while !stop.isOpen { await Task.yield() } } }
    for _ in 0..<300 { _ = try await text(responder, "/reports/urgent") }
    #expect(await server.scheduler.statistics().backgroundShare.cuts == 0)
    try await eventually("a cut of background's share") {
      for _ in 0..<50 { _ = try? await text(responder, "/") }
      return await server.scheduler.statistics().backgroundShare.cuts > 0
    }
    stop.open()
    try await server.scheduler.shutdown()
  }

  @Test func aBodyOfAnAppIsWrittenThere() async throws {
    let server = try Server()
    server.router.get("/") { [reports = server.reports] _, _ in
      Response(
        status: .ok,
        body: ResponseBody(on: reports) { writer in
          try await writer.write(ByteBuffer(string: poolOfThread() ?? "elsewhere"))
          try await writer.finish(nil)
        })
    }
    #expect(try await text(server.router.buildResponder(), "/") == "bg")
    try await server.scheduler.shutdown()
  }
}
