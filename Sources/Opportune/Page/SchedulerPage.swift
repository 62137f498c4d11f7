import FoundationEssentials
import OpportuneBase
public import OpportuneIO
import OpportuneMemory
public import OpportuneScheduler
import Synchronization
import SystemPackage

/// A page for the browsers of this machine that shows a running scheduler, each second anew: its apps, their
/// bands, CPU time, waits and demotions, its pools, and the requests of a broker.
///
/// ```swift
/// let page = try await SchedulerPage(of: scheduler, through: broker)
/// print(page.address)  // http://127.0.0.1:40123/?token=…
/// ```
///
/// It is served on 127.0.0.1 alone, to who has the token at the end of the address, and changes nothing. The
/// numbers behind it are at `/scheduler.json`, with the token in the address or as
/// `Authorization: Bearer TOKEN`. Nothing is read while nobody looks.
///
/// Until it is closed, the page keeps the scheduler, and has an app "page" there, in the foreground.
public final class SchedulerPage: Sendable {
  /// Where the page is, token included: who can read it may look.
  public let address: String

  /// Until it is closed: who keeps the page after that keeps no app.
  private let listening: Mutex<(listener: Listener, io: AppIO)?>

  /// Makes an app of the scheduler, and listens.
  ///
  /// - Parameters:
  ///   - scheduler: what is shown.
  ///   - broker: carries the connections, and its requests are shown.
  ///   - port: 0 is one that is free.
  /// - Throws: `SchedulerError` where no app can be made; `IOError` where the port is taken, or the
  ///   broker was shut down.
  public init(of scheduler: Scheduler, through broker: IOBroker, port: UInt16 = 0) async throws {
    let app = try scheduler.makeApp(named: "page")
    let io = try broker.makeIO(for: app)
    let (listener, bound): (Listener, SocketAddress)
    do {
      listener = try await io.listen(on: .ipv4("127.0.0.1", port: port))
      bound = try listener.address()
    } catch {
      await io.terminate()
      throw error
    }
    guard case .ipv4(_, let port) = bound else {
      preconditionFailure("a socket that was bound to an IPv4 address has another")
    }
    let site = LocalSite(printer: "the program", numbers: "/scheduler.json")
    address = "http://127.0.0.1:\(port)/?token=\(site.token)"
    listening = Mutex((listener, io))
    app.task {
      try? await LocalSite.serve(listener, on: app, through: io) { request in
        if let refusal = site.refusal(of: request) { return refusal }
        var answer = request.path == "/" ? Self.page(of: scheduler) : await Self.numbers(scheduler, broker)
        answer.lacksBody = request.method == "HEAD"
        return answer
      }
    }
  }

  /// Ends the page: connections are closed, and the port is free. Later calls do nothing.
  public func close() async {
    let ending = listening.withLock { listening in
      defer { listening = nil }
      return listening
    }
    guard let ending else { return }
    try? await ending.listener.close()
    await ending.io.terminate()
  }

  // MARK: Numbers

  private struct Numbers: Encodable {
    let scheduler: String
    let at: Double
    let residentBytes: UInt64?
    let apps: [App]
    let pools: [Pool]
    let requests: [Requests]
    let usesUring: Bool?
  }

  private struct App: Encodable {
    let id: UInt64
    let name: String
    let band: String
    let isSuspended: Bool
    let jobs: UInt64
    let cpuS: Double
    let demotions: UInt64
    let restored: UInt64
    let waiting: Times
  }

  private struct Pool: Encodable {
    let pool: String
    let working: Int
    let demoted: Int
    let sleeping: Int
  }

  /// Of one app, both classes together.
  private struct Requests: Encodable {
    let id: UInt64
    let name: String
    let state: String
    let done: UInt64
    let bytesRead: UInt64
    let bytesWritten: UInt64
    let inFlight: Int
    let held: Int
    let openDescriptors: Int
    let waiting: Times
    let inDevice: Times
  }

  /// Since the start; the buckets are for who subtracts an earlier answer: the middle in ns, and the count.
  private struct Times: Encodable {
    let count: UInt64
    let p50Ns: Int64?
    let p90Ns: Int64?
    let p99Ns: Int64?
    let buckets: [[UInt64]]

    init(_ histogram: LatencyHistogram) {
      func quantile(_ share: Double) -> Int64? { histogram.quantile(share)?.clampedNanoseconds }
      count = histogram.count
      (p50Ns, p90Ns, p99Ns) = (quantile(0.5), quantile(0.9), quantile(0.99))
      buckets = histogram.middles.map { [$0.nanoseconds, $0.count] }
    }
  }

  private static func numbers(_ scheduler: Scheduler, _ broker: IOBroker) async -> HTTPAnswer {
    let statistics = await scheduler.statistics()
    let io = try? await broker.statistics()
    let status = KernelFile.text("/proc/self/status").map(KernelFile.table)
    return LocalSite.json(
      Numbers(
        scheduler: scheduler.configuration.name, at: Date().timeIntervalSince1970,
        residentBytes: status?["VmRSS"],
        apps: statistics.apps.map {
          App(
            id: $0.number, name: $0.name, band: "\($0.band)", isSuspended: $0.isSuspended, jobs: $0.jobs,
            cpuS: $0.cpuTime.inSeconds, demotions: $0.demotions, restored: $0.restored,
            waiting: Times($0.waiting))
        },
        pools: statistics.pools.map {
          Pool(pool: "\($0.pool)", working: $0.working, demoted: $0.demoted, sleeping: $0.sleeping)
        },
        requests: (io?.apps ?? []).map { app in
          let both = [app.foreground, app.background]
          func sum(_ count: (IOStatistics.Class) -> UInt64) -> UInt64 { both.reduce(0) { $0 &+ count($1) } }
          func times(_ histogram: (IOStatistics.Class) -> LatencyHistogram) -> Times {
            var all = histogram(app.foreground)
            all.add(histogram(app.background))
            return Times(all)
          }
          return Requests(
            id: app.number, name: app.name, state: "\(app.state)",
            done: sum { $0.completed &+ $0.failed &+ $0.cancelled &+ $0.inline },
            bytesRead: sum(\.bytesRead), bytesWritten: sum(\.bytesWritten), inFlight: app.inFlight,
            held: app.held, openDescriptors: app.openDescriptors, waiting: times(\.waiting),
            inDevice: times(\.inDevice))
        },
        usesUring: io?.usesUring))
  }

  // MARK: Page

  private static func page(of scheduler: Scheduler) -> HTTPAnswer {
    let name = scheduler.configuration.name
    return LocalSite.page(
      title: "Scheduler \(name)", heading: "Scheduler \(name)", style: style, script: script,
      [
        "<p id=told role=status></p><p id=pools></p>", "<h2>Apps</h2>",
        HTMLPage.table(
          ["App", "Band", "Jobs/s", "CPU", "Waiting p50", "p90", "p99", "Demoted/s", "Restored/s"], [],
          isNumber: { $0 > 1 }), "<h2>Requests</h2>",
        HTMLPage.table(
          [
            "App", "State", "Done/s", "Read/s", "Written/s", "In flight", "Held", "Open", "Waiting p99",
            "In the kernel p99",
          ], [], isNumber: { $0 > 1 }),
        "<p class=soft>Rates and percentiles are of the last ten seconds; – where nothing was counted.</p>",
      ])
  }

  private static let style = """
    #told, #pools, .soft { color: var(--soft); } #told.late { color: #c5221f; }
    .foreground, .active { font-weight: 600; } .suspended { color: var(--soft); }
    """

  /// What it shows of others is text, never markup.
  private static let script = """
    const [apps, requests] = document.querySelectorAll("tbody");
    const told = document.getElementById("told"), pools = document.getElementById("pools"), answers = [];
    const byID = list => new Map(list.map(one => [one.id, one]));
    function time(ns) {
      return ns === null ? "–" : ns < 1e6 ? (ns / 1e3).toFixed(ns < 1e4 ? 1 : 0) + " µs"
        : ns < 1e9 ? (ns / 1e6).toFixed(ns < 1e7 ? 1 : 0) + " ms" : (ns / 1e9).toFixed(1) + " s";
    }
    function size(bytes) {
      return bytes < 1e6 ? (bytes / 1e3).toFixed(1) + " kB" : (bytes / 1e6).toFixed(1) + " MB";
    }
    function quantile(now, before, share) {
      const old = new Map(before ? before.buckets : []);
      let wanted = (now.count - (before ? before.count : 0)) * share;
      if (wanted <= 0) return null;
      for (const [middle, count] of now.buckets) {
        wanted -= count - (old.get(middle) || 0);
        if (wanted <= 0) return middle;
      }
      return null;
    }
    function fill(body, rows) {
      body.replaceChildren(...rows.map(([kind, ...cells]) => {
        const row = document.createElement("tr");
        row.className = kind;
        cells.forEach((text, column) => {
          const cell = document.createElement(column ? "td" : "th");
          if (column > 1) cell.className = "n";
          cell.textContent = text;
          row.append(cell);
        });
        return row;
      }));
    }
    function show(now) {
      if (answers.length && answers.at(-1).at >= now.at) answers.length = 0;
      answers.push(now);
      if (answers.length > 11) answers.shift();
      const then = answers[0], seconds = now.at - then.at;
      const rate = (one, old, key) => seconds > 0 ? (one[key] - (old ? old[key] : 0)) / seconds : null;
      const whole = value => value === null ? "–" : value.toFixed(0);
      const oldApps = byID(then.apps), oldRequests = byID(then.requests);
      const past = (map, one) => seconds > 0 ? map.get(one.id) : one;
      fill(apps, now.apps.map(app => {
        const old = past(oldApps, app), cpu = rate(app, old, "cpu_s");
        const waited = share => time(quantile(app.waiting, old && old.waiting, share));
        return [app.is_suspended ? "suspended" : app.band, app.name,
          app.band + (app.is_suspended ? ", suspended" : ""), whole(rate(app, old, "jobs")),
          cpu === null ? "–" : (cpu * 100).toFixed(0) + " %", waited(0.5), waited(0.9), waited(0.99),
          whole(rate(app, old, "demotions")), whole(rate(app, old, "restored"))];
      }));
      fill(requests, now.requests.map(app => {
        const old = past(oldRequests, app);
        const bytes = key => seconds > 0 ? size(rate(app, old, key)) : "–";
        return [app.state, app.name, app.state, whole(rate(app, old, "done")), bytes("bytes_read"),
          bytes("bytes_written"), app.in_flight, app.held, app.open_descriptors,
          time(quantile(app.waiting, old && old.waiting, 0.99)),
          time(quantile(app.in_device, old && old.in_device, 0.99))];
      }));
      pools.textContent = now.pools.map(pool => pool.pool + ": " + pool.working + " working, " + pool.demoted
        + " demoted, " + pool.sleeping + " asleep").join(" · ");
      told.className = "";
      told.textContent = new Date(now.at * 1000).toLocaleTimeString()
        + (now.resident_bytes ? ", " + size(now.resident_bytes) + " of memory" : "")
        + (now.uses_uring === false ? ", without io_uring" : "");
    }
    async function look() {
      try {
        const answer = await fetch("/scheduler.json" + location.search);
        if (!answer.ok) throw new Error(await answer.text());
        show(await answer.json());
      } catch (error) {
        told.className = "late";
        told.textContent = error instanceof TypeError ? "the program does not answer" : error.message;
      }
      setTimeout(look, 1000);
    }
    look();
    """
}
