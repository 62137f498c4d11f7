import Opportune
import SystemPackage
import Testing

@Suite struct HostedIOTests {
  private struct Reader: AppDelegate {}

  private func numbers(_ broker: IOBroker) async throws -> (inFlight: Int, held: Int) {
    let app = try #require(try await broker.statistics().apps.first)
    return (app.inFlight, app.held)
  }

  // R-FTS-07, R-FTS-08, R-FTS-06
  @Test(.timeLimit(.minutes(1))) func completionsOfASuspendedAppAreHeldAndDeliveredOnce() async throws {
    let host = try patientHost()
    let broker = try host.makeIOBroker()
    let app = try await host.launch(Manifest(identifier: "reader")) { _ in Reader() }
    await wait(host, app, for: .active)
    let io = try app.attach(to: broker)
    let (input, output) = try FileDescriptor.pipe()
    let delivered = Counter()
    let reads = try (0..<64).map { _ in
      try app.task {
        let count = try await io.read(input, into: try IOBuffer(count: 1, alignment: 16))
        delivered.add()
        return count
      }
    }
    while try await numbers(broker).inFlight < 64 { await Task.yield() }
    try await host.leave(app.id)
    await wait(host, app, for: .suspended)
    _ = try output.writeAll([UInt8](repeating: 7, count: 64))
    while try await numbers(broker).held < 64 { await Task.yield() }
    // Reported to the host, whose policy lets it sleep on.
    #expect(delivered.value == 0)
    #expect(await host.state(of: app.id) == .suspended)
    try await host.bringForward(app.id)
    for read in reads { #expect(try await read.value == 1) }
    #expect(delivered.value == 64)
    #expect(try await numbers(broker) == (0, 0))
    try await host.terminate(app.id)
    for end in [input, output] { try end.close() }
  }

  /// Handles a completion by waiting for what it completed: an app that has handled what it was woken for is suspended.
  private struct Waiter: AppDelegate {
    let delivered: Counter
    func didReceive(_ notice: AppNotice) async { while delivered.value == 0 { await Task.yield() } }
  }

  // R-FTS-08
  @Test(.timeLimit(.minutes(1))) func aHeldCompletionReanimatesWhereThePolicySaysSo() async throws {
    let host = try patientHost { $0.completionsReanimate = true }
    let broker = try host.makeIOBroker()
    let delivered = Counter()
    let app = try await host.launch(Manifest(identifier: "reader")) { _ in Waiter(delivered: delivered) }
    await wait(host, app, for: .active)
    let io = try app.attach(to: broker)
    let (input, output) = try FileDescriptor.pipe()
    let read = try app.task {
      let count = try await io.read(input, into: try IOBuffer(count: 1, alignment: 16))
      delivered.add()
      return count
    }
    while try await numbers(broker).inFlight < 1 { await Task.yield() }
    try await host.leave(app.id)
    await wait(host, app, for: .suspended)
    _ = try output.writeAll([7])
    #expect(try await read.value == 1)
    await wait(host, app, for: .suspended)
    try await host.terminate(app.id)
    for end in [input, output] { try end.close() }
  }

  // R-LIFE-08, R-FTS-07
  @Test(.timeLimit(.minutes(1))) func aTerminatedAppsReadsEnd() async throws {
    let host = try patientHost()
    let broker = try host.makeIOBroker()
    let app = try await host.launch(Manifest(identifier: "reader")) { _ in Reader() }
    await wait(host, app, for: .active)
    let io = try app.attach(to: broker)
    let (input, output) = try FileDescriptor.pipe()
    // Not the app's own task, which its end would cancel: the I/O itself ends.
    let read = Task { try await io.read(input, into: try IOBuffer(count: 1)) }
    while try await numbers(broker).inFlight < 1 { await Task.yield() }
    try await host.terminate(app.id)
    await #expect { try await read.value } throws: { ($0 as? IOError)?.code == .terminated }
    for end in [input, output] { try end.close() }
  }
}
