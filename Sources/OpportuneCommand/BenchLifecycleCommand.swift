import ArgumentParser
import Glibc
import Opportune

/// The cost of the lifecycle: the table, virtual time, and live switches beside queued jobs.
struct BenchLifecycleCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "lifecycle", abstract: "What moves of the lifecycle cost, in virtual time and live.")

  @Option(help: "Apps of the virtual machine.") var apps = 10_000
  @Option(help: "Switches to time of each kind.") var switches = 20_000
  @Flag(help: "Print JSON.") var json = false

  func validate() throws {
    guard (2...1_000_000).contains(apps) else { throw ValidationError("--apps is \(apps), expected 2 to 1000000") }
    guard (10...10_000_000).contains(switches) else {
      throw ValidationError("--switches is \(switches), expected 10 to 10000000")
    }
  }

  mutating func run() async throws {
    var rows: [(name: String, value: Double, unit: String)] = []
    rows.append(("table decisions", try decisions(), "per second"))
    rows.append(("virtual events, 4 apps", try virtualEvents(), "per minute"))
    rows.append(("virtual switch, \(apps) apps", try virtualSwitch(), "us"))
    for queued in [1, 10, 100, 1000, 10_000, 100_000] {
      rows.append(("live band and suspension change, \(queued) queued jobs", try await liveSwitch(queued), "us"))
    }
    rows.append(("live resumption by the host, 10000 queued jobs", try await resumption(), "us"))
    if json {
      let entries = rows.map { "  {\"name\":\"\($0.name)\",\"value\":\(short($0.value)),\"unit\":\"\($0.unit)\"}" }
      print("[\n\(entries.joined(separator: ",\n"))\n]")
    } else {
      for row in rows {
        print("\(row.name)\(String(repeating: " ", count: max(1, 52 - row.name.count)))\(short(row.value)) \(row.unit)")
      }
    }
  }

  private func decisions() throws -> Double {
    var moves = 0
    let start = nanoseconds()
    for _ in 0..<2000 {
      for state in LifecycleState.allCases {
        for event in LifecycleEvent.allCases {
          if case .move = try? Lifecycle.decide(state, event, .backgroundAllowed) { moves += 1 }
        }
      }
    }
    let count = 2000 * LifecycleState.allCases.count * LifecycleEvent.allCases.count
    return moves > 0 ? Double(count) / seconds(since: start) : 0
  }

  private func virtualEvents() throws -> Double {
    var host = try VirtualHost(keepsLog: false, hashesLog: false)
    let apps = (0..<4).map { host.register(Manifest(identifier: "app\($0)")) }
    let start = nanoseconds()
    while host.events < switches * 10 {
      try host.post(.launch, apps[host.events % 4])
      try host.run(for: .seconds(2))
    }
    return Double(host.events) / seconds(since: start) * 60
  }

  private func virtualSwitch() throws -> Double {
    var host = try VirtualHost(keepsLog: false, hashesLog: false)
    let ids = (0..<apps).map { host.register(Manifest(identifier: "app\($0)")) }
    for id in ids { try host.post(.launch, id) }
    try host.run(for: .seconds(6))
    let start = nanoseconds()
    // Each brings one app forward and sends another to background.
    for count in 0..<switches { try host.post(.bringForward, ids[count % apps]) }
    return seconds(since: start) / Double(switches) * 1e6
  }

  /// What a move of a live app costs in the scheduler: suspend, change the band, resume; the jobs stay queued.
  private func liveSwitch(_ queued: Int) async throws -> Double {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "queued", band: .background)
    app.suspend()
    for _ in 0..<queued { try app.submit {} }
    let rounds = 1000
    let start = nanoseconds()
    for _ in 0..<rounds {
      try app.setBand(.foreground)
      try app.setBand(.background)
    }
    let result = seconds(since: start) / Double(rounds * 2) * 1e6
    app.resume()
    try await scheduler.shutdown()
    return result
  }

  /// From `bringForward` to the app being able to run, with its jobs queued.
  private func resumption() async throws -> Double {
    var policy = AppsPolicy()
    policy.suspendsOnReturn = true
    let host = try AppHost(policy: policy)
    var best = Double.infinity
    for _ in 0..<20 {
      let app = try await host.launch(Manifest(identifier: "app")) { _ in Empty() }
      while await host.state(of: app.id) != .active { await Task.yield() }
      try await host.leave(app.id)
      while await host.state(of: app.id) != .suspended { await Task.yield() }
      for _ in 0..<10_000 { try app.submit {} }
      let start = nanoseconds()
      try await host.bringForward(app.id)
      best = min(best, seconds(since: start) * 1e6)
      try await host.terminate(app.id)
    }
    return best
  }

  private struct Empty: AppDelegate {}

  private func nanoseconds() -> UInt64 { monotonicNanoseconds() }
  private func seconds(since start: UInt64) -> Double { Double(nanoseconds() - start) / 1e9 }
  private func short(_ value: Double) -> String { value >= 1000 ? "\(Int(value))" : "\((value * 100).rounded() / 100)" }
}

private func monotonicNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
