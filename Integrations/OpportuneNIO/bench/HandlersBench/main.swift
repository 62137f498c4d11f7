import Glibc
import Hummingbird
import Logging
import NIOCore
import NIOPosix
import Opportune
import OpportuneNIO
import ServiceLifecycle
import Synchronization

/// A server whose handlers burn CPU time, `/quick` 1 ms and `/slow` 300 ms, for `bench/run`; ends at SIGTERM.
///
///     HandlersBench CONTENDER PORT [compacting]
///
/// Compacting, it merges sorted runs meanwhile, on a task for each core, and prints at its end how many. The
/// tasks are of background priority with the first two contenders, of a background app with the others.
///
/// * `pool`: Hummingbird as it is; handlers run on Swift's global pool.
/// * `loops`: the same, with SwiftNIO's event loops as that pool.
/// * `app`: all handlers on one app, which nobody has told what is slow.
/// * `routes`: `/slow` on a background app.
/// * `whole`: as `app`, and the tasks of connections on an app, too.
enum Contender: String, CaseIterable { case pool, loops, app, routes, whole }

let isCompacting = CommandLine.arguments.dropFirst(3) == ["compacting"]
guard CommandLine.arguments.count == (isCompacting ? 4 : 3),
  let contender = Contender(rawValue: CommandLine.arguments[1]),
  let port = Int(CommandLine.arguments[2])
else {
  print("usage: HandlersBench \(Contender.allCases.map(\.rawValue).joined(separator: "|")) PORT [compacting]")
  exit(64)
}
if contender == .loops,
  !NIOSingletons.unsafeTryInstallSingletonPosixEventLoopGroupAsConcurrencyGlobalExecutor()
{
  print("the event loops cannot be Swift's executor here")
  exit(1)
}

let router = Router()
var services: [any Service] = []
var (server, behind) = (App?.none, App?.none)
if contender != .pool, contender != .loops {
  let scheduler = try Scheduler()
  let ui = try scheduler.makeApp(named: "ui")
  let slow = try scheduler.makeApp(named: "slow", band: .background)
  router.add(middleware: RunOnApps(ui, routes: contender == .routes ? [AppRoute("/slow", on: slow)] : []))
  try await scheduler.putInForeground(MultiThreadedEventLoopGroup.singleton)
  services = [SchedulerService(scheduler)]
  behind = try scheduler.makeApp(named: "compaction", band: .background)
  if contender == .whole { server = try scheduler.makeApp(named: "server") }
}
router.get("/quick") { _, _ in burn(milliseconds: 1) }
router.get("/slow") { _, _ in burn(milliseconds: 300) }

var logger = Logger(label: "bench")
logger.logLevel = .error
let application = Application(
  router: router, configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
  logger: logger)
let whole: any Service = server.map { ServiceOnApp(application, on: $0) } ?? application
try await ServiceGroup(
  configuration: ServiceGroupConfiguration(
    services: services + (isCompacting ? [Compaction(app: behind)] : []) + [whole],
    gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
).run()

/// What a store does behind a server that uses it.
final class Compaction: Service {
  private let app: App?
  /// Counted; orders nothing.
  private let merged = Atomic(0)

  init(app: App?) { self.app = app }

  func run() async throws {
    await cancelWhenGracefulShutdown {
      await withDiscardingTaskGroup { group in
        for core in 0..<sysconf(Int32(_SC_NPROCESSORS_ONLN)) {
          group.addTask(executorPreference: self.app?.executor, priority: .background) {
            let runs = (0..<2).map { run in (0..<100_000).map { $0 &* 7 &+ run &+ core } }
            while !Task.isCancelled {
              if merge(runs[0], runs[1]).count == 200_000 { self.merged.add(1, ordering: .relaxed) }
              await Task.yield()
            }
          }
        }
      }
    }
    print("\(merged.load(ordering: .relaxed)) merged")
  }
}

@Sendable func merge(_ one: [Int], _ other: [Int]) -> [Int] {
  var (merged, left, right) = ([Int](), one[...], other[...])
  merged.reserveCapacity(one.count + other.count)
  while let first = left.first, let second = right.first {
    merged.append(min(first, second))
    if first <= second { left.removeFirst() } else { right.removeFirst() }
  }
  return merged + left + right
}

/// So much of the CPU time of its thread, however long that takes.
@Sendable func burn(milliseconds: Int) -> String {
  let end = cpuTime() + milliseconds * 1_000_000
  while cpuTime() < end {}
  return "done\n"
}

@Sendable func cpuTime() -> Int {
  var time = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
  return time.tv_sec * 1_000_000_000 + time.tv_nsec
}
