import Glibc
import Opportune
import SystemPackage
import TestSupport
import Testing

@Suite(.bounded) struct HostedIOTests {
  private func numbers(_ broker: IOBroker) async throws -> (inFlight: Int, held: Int) {
    let app = try #require(try await broker.statistics().apps.first)
    return (app.inFlight, app.held)
  }

  /// Waits until the kernel has the reads. A read also counts as in flight while its worker tries it; were
  /// its app suspended then, it would wait in the broker.
  private func untilInKernel(_ count: Int, _ broker: IOBroker) async throws {
    try await until {
      let app = try #require(try await broker.statistics().apps.first)
      return app.foreground.submitted == count && app.inFlight == count
    }
  }

  // R-FTS-07, R-FTS-08, R-FTS-06
  @Test(.timeLimit(.minutes(1))) func completionsOfASuspendedAppAreHeldAndDeliveredOnce() async throws {
    let host = try patientHost()
    let broker = try host.makeIOBroker()
    let app = try await launchAndWait(host, Manifest(identifier: "reader")) { _ in Silent() }
    let io = try broker.makeIO(for: app)
    let (input, output) = try FileDescriptor.pipe()
    let delivered = Counter()
    let reads = try (0..<64).map { _ in
      try app.task {
        let count = try await io.read(input, into: try IOBuffer(count: 1, alignment: 16))
        delivered.add()
        return count
      }
    }
    try await untilInKernel(64, broker)
    try await leaveAndWait(host, app)
    _ = try output.writeAll([UInt8](repeating: 7, count: 64))
    try await until { try await numbers(broker).held >= 64 }
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

  /// Handles a completion by waiting for what it completed: an app that has handled what it was woken for is
  /// suspended.
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
    let io = try broker.makeIO(for: app)
    let (input, output) = try FileDescriptor.pipe()
    let read = try app.task {
      let count = try await io.read(input, into: try IOBuffer(count: 1, alignment: 16))
      delivered.add()
      return count
    }
    try await untilInKernel(1, broker)
    try await leaveAndWait(host, app)
    _ = try output.writeAll([7])
    #expect(try await read.value == 1)
    await wait(host, app, for: .suspended)
    try await host.terminate(app.id)
    for end in [input, output] { try end.close() }
  }

  /// Takes what has come, and says how much it was told of.
  private struct Phone: AppDelegate {
    let socket: FileDescriptor
    let told: AsyncStream<Int>.Continuation
    func didReceive(_ notice: AppNotice) async {
      guard case .data(let bytes) = notice else { return }
      var buffer = [UInt8](repeating: 0, count: 64)
      _ = recv(socket.rawValue, &buffer, buffer.count, Int32(MSG_DONTWAIT))
      told.yield(bytes)
    }
  }

  // R-VOIP-01, R-VOIP-03, R-VOIP-04
  @Test(.timeLimit(.minutes(1))) func whatArrivesForASuspendedAppWakesIt() async throws {
    let host = try patientHost()
    let broker = try host.makeIOBroker()
    let ends = try socketPair()
    let (socket, peer) = (FileDescriptor(rawValue: ends.0), FileDescriptor(rawValue: ends.1))
    let (sizes, told) = AsyncStream.makeStream(of: Int.self)
    let phone = Manifest(identifier: "phone", backgroundModes: [.voip])
    let app = try await host.launch(phone) { _ in Phone(socket: socket, told: told) }
    await wait(host, app, for: .active)
    let io = try broker.makeIO(for: app)
    try app.keepAlive([socket], of: io)
    var heard = sizes.makeAsyncIterator()
    try await host.leave(app.id)
    for bytes in [3, 5] {
      await wait(host, app, for: .suspended)
      _ = try peer.writeAll([UInt8](repeating: 7, count: bytes))
      #expect(await heard.next() == bytes)
    }
    await wait(host, app, for: .suspended)
    let plain = try await host.launch(Manifest(identifier: "plain")) { _ in Silent() }
    #expect(throws: HostError.self) { try plain.keepAlive([socket], of: io) }
    for id in [app.id, plain.id] { try await host.terminate(id) }
    await broker.shutdown()
    for end in [socket, peer] { try end.close() }
  }

  private func submitted(_ broker: IOBroker) async throws -> [UInt64] {
    let app = try #require(try await broker.statistics().apps.first)
    return [app.foreground.submitted, app.background.submitted]
  }

  /// Which classes an app's requests are of; waits until the broker has been told.
  private func becomes(
    _ storage: IOClass, _ network: IOClass, _ io: AppIO, _ socket: FileDescriptor, _ broker: IOBroker
  ) async throws {
    func grows(by class: IOClass, _ body: () async throws -> Void) async throws -> Bool {
      let before = try await submitted(broker)
      try await body()
      let after = try await submitted(broker)
      return after[Int(`class`.rawValue)] > before[Int(`class`.rawValue)]
    }
    try await until { try await grows(by: storage) { _ = try await io.status("/") } }
    let byte = try IOBuffer(count: 1)
    try await until { try await grows(by: network) { try? await io.send(socket, from: byte, within: .zero) } }
  }

  // R-PWR-05, R-SYS-02, R-LIFE-05, R-CPU-11
  @Test(.timeLimit(.minutes(1)), arguments: [true, false])
  func whoReceivesNoInputIsLimitedInStorageAndNetwork(limitsStorage: Bool) async throws {
    let host = try patientHost {
      $0.maximumForeground = 2
      $0.restrictions.limitsInactive = true
      if !limitsStorage { $0.restrictions.resources.remove(.storage) }
    }
    let broker = try host.makeIOBroker()
    let ends = try socketPair()
    let socket = FileDescriptor(rawValue: ends.0)
    let first = try await launchAndWait(host, Manifest(identifier: "first")) { _ in Silent() }
    let io = try broker.makeIO(for: first)
    try await becomes(.foreground, .foreground, io, socket, broker)
    let second = try await launchAndWait(host, Manifest(identifier: "second")) { _ in Silent() }
    try await becomes(limitsStorage ? .background : .foreground, .background, io, socket, broker)
    try await host.bringForward(first.id)
    try await becomes(.foreground, .foreground, io, socket, broker)
    for id in [first.id, second.id] { try await host.terminate(id) }
    await broker.shutdown()
    for end in [ends.0, ends.1] { #expect(close(end) == 0) }
  }

  // R-LIFE-08, R-FTS-07
  @Test(.timeLimit(.minutes(1))) func aTerminatedAppsReadsEnd() async throws {
    let host = try patientHost()
    let broker = try host.makeIOBroker()
    let app = try await launchAndWait(host, Manifest(identifier: "reader")) { _ in Silent() }
    let io = try broker.makeIO(for: app)
    let (input, output) = try FileDescriptor.pipe()
    // Not the app's own task, which its end would cancel: the I/O itself ends.
    let read = Task { try await io.read(input, into: try IOBuffer(count: 1)) }
    try await untilInKernel(1, broker)
    try await host.terminate(app.id)
    await #expect { try await read.value } throws: { ($0 as? IOError)?.code == .terminated }
    for end in [input, output] { try end.close() }
  }
}
