import Opportune
import OpportuneBase
import SystemPackage

/// How soon a suspended app runs again that has much queued and much held. (R-FTS-08)
package struct ResumptionBench: Sendable {
  /// One resumption, in microseconds from the call of `bringForward`.
  package struct Sample: Sendable {
    /// Until the call has returned: from here on the app may run.
    package let returned: Double
    /// Until the first of its queued jobs ran.
    package let firstJob: Double
    /// Until the last held completion was delivered, all queued jobs before it in the queues.
    package let lastCompletion: Double
  }

  private let jobs: Int
  private let completions: Int
  private let repeats: Int

  /// - Throws: ``BenchError`` for the first value that is out of range.
  package init(jobs: Int = 10_000, completions: Int = 64, repeats: Int = 20) throws(BenchError) {
    try BenchError.check(jobs, "jobs", 1...1_000_000)
    try BenchError.check(completions, "completions", 1...1000)
    try BenchError.check(repeats, "--repeats", 1...1000)
    (self.jobs, self.completions, self.repeats) = (jobs, completions, repeats)
  }

  private struct Empty: AppDelegate {}

  package func run(isInterrupted: () -> Bool = { false }) async throws -> [Sample] {
    var policy = AppsPolicy()
    policy.suspendsOnReturn = true
    let host = try AppHost(policy: policy)
    let broker = try host.makeIOBroker()
    var samples: [Sample] = []
    while samples.count < repeats, !isInterrupted() { samples.append(try await once(host, broker)) }
    await broker.shutdown()
    try await host.scheduler.shutdown()
    return samples
  }

  private func once(_ host: AppHost, _ broker: IOBroker) async throws -> Sample {
    let app = try await host.launch(Manifest(identifier: "app")) { _ in Empty() }
    let io = try broker.makeIO(for: app)
    let (input, output) = try FileDescriptor.pipe()
    defer { for end in [input, output] { try? end.close() } }
    try await reach(.active, app, host)
    let reads = try (0..<completions).map { _ in
      let buffer = try IOBuffer(count: 1, alignment: 16)
      return try app.task {
        let count = try await io.read(input, into: buffer)
        return (count, SystemClock.now())
      }
    }
    func statistics() async throws -> IOStatistics.App {
      let newest = try await broker.statistics().apps.max { $0.number < $1.number }
      guard let newest else { throw BenchError(.workLost, "the broker does not know the app") }
      return newest
    }
    // What the kernel does not have when the app is suspended waits for it to be resumed. A read also counts
    // as in flight while its worker tries it, so that those in flight alone do not tell.
    func areAllInKernel() async throws -> Bool {
      let app = try await statistics()
      return app.foreground.submitted == completions && app.inFlight == completions
    }
    while try await !areAllInKernel() { try await Self.pause() }
    try await host.leave(app.id)
    try await reach(.suspended, app, host)
    _ = try output.writeAll([UInt8](repeating: 1, count: completions))
    while try await statistics().held < completions { try await Self.pause() }
    let (starts, started) = AsyncStream.makeStream(of: Nanoseconds.self)
    try app.submit { started.yield(SystemClock.now()) }
    for _ in 1..<jobs { try app.submit {} }

    let start = SystemClock.now()
    try await host.bringForward(app.id)
    let returned = SystemClock.now()
    var iterator = starts.makeAsyncIterator()
    guard let first = await iterator.next() else {
      throw BenchError(.workLost, "no job ran after the resumption")
    }
    var last: Nanoseconds = 0
    for read in reads {
      let (count, moment) = try await read.value
      guard count == 1 else {
        throw BenchError(.workLost, "a held completion brought \(count) bytes, expected 1")
      }
      last = max(last, moment)
    }
    try await host.terminate(app.id)
    while await host.state(of: app.id) != .notRunning { try await Self.pause() }
    return Sample(
      returned: microseconds(from: start, to: returned), firstJob: microseconds(from: start, to: first),
      lastCompletion: microseconds(from: start, to: last))
  }

  /// Between two looks at what is not measured: without it they take both CPUs of a small machine from what
  /// they wait for.
  private static func pause() async throws { try await Task.sleep(for: .microseconds(100)) }

  /// Waits until the app is in the state.
  private func reach(_ wanted: LifecycleState, _ app: HostedApp, _ host: AppHost) async throws {
    while let state = await host.state(of: app.id), state != wanted {
      guard state != .terminated, state != .notRunning else {
        throw BenchError(.workLost, "an app was \(state) that should have become \(wanted)")
      }
      try await Self.pause()
    }
  }

  private func microseconds(from start: Nanoseconds, to end: Nanoseconds) -> Double {
    Double(elapsed(from: start, to: end)) / 1000
  }
}
