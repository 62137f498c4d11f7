import Hummingbird
import NIOPosix
import Opportune
import OpportuneNIO

let scheduler = try Scheduler()
let ui = try scheduler.makeApp(named: "ui")
let reports = try scheduler.makeApp(named: "reports", band: .background)
try ui.target(.latency(p99: .milliseconds(20)))
let files = AppFiles("public", with: try IOBroker().makeIO(for: ui))
let drain = AppDrain()

let router = Router()
router.add(middleware: RunOnApps(ui, routes: [AppRoute("/reports", on: reports)]))
router.add(middleware: FileMiddleware(fileProvider: files))
router.get("/primes/{limit}") { _, context in
  "\(primes(below: try context.parameters.require("limit", as: Int.self)))\n"
}
router.get("/reports") { _, _ in
  drain.task(on: reports) { print("a report was made, of \(primes(below: 1000)) lines") }
  return "\(primes(below: 300_000))\n"
}

try await scheduler.putInForeground(MultiThreadedEventLoopGroup.singleton)
let port = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 8080
let application = Application(
  router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
  services: [SchedulerService(scheduler), drain])
try await application.runService()

func primes(below limit: Int) -> Int {
  (2..<max(2, min(limit, 1_000_000))).count { n in !(2..<n).prefix { $0 * $0 <= n }.contains { n % $0 == 0 } }
}
