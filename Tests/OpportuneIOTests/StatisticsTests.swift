import Foundation
import MetricsTestKit
import Synchronization
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct StatisticsTests {
  @Test(arguments: backends)
  func everythingIsCountedByClass(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) {
        $0.triesInline = false
        $0.storage.bytes = .init(perSecond: 100_000_000, burst: 5_000_000)
        $0.storage.operations = .init(perSecond: 1_000_000, burst: 1000)
      }
      let foreground = try broker.makeApp(named: "foreground")
      let background = try broker.makeApp(named: "background", state: .background)
      for io in [foreground, background] {
        let file = try await io.open(folder.appending(io.name), .readWrite, options: [.create])
        try await io.write(file, from: try IOBuffer(count: 10_000), at: 0)
        #expect(try await io.read(file, into: try IOBuffer(count: 20_000), at: 0) == 10_000)
        #expect(await code { _ = try await io.open("/nowhere/at/all", .readOnly) } != nil)
        #expect(
          await code { _ = try await io.read(file, into: try IOBuffer(count: 1), within: .zero) }
            == .deadlineExceeded)
        try await io.close(file)
      }
      let statistics = try await broker.statistics()
      for values in [statistics.foreground, statistics.background] {
        #expect(values.bytesWritten == 10_000)
        #expect(values.bytesRead == 10_000)
        #expect(values.failed == 1)
        #expect(values.cancelled == 1)
        #expect(values.submitted == values.completed + 2)
        #expect(values.waiting.count == values.inDevice.count)
        #expect(values.inline == 0)
      }
      #expect(statistics.apps.map(\.name) == ["foreground", "background"])
      #expect(statistics.storage.cap == 4)
      #expect((statistics.storage.byteTokens ?? 0) <= 5_000_000)
      #expect((statistics.storage.operationTokens ?? 0) <= 1000)
      #expect(statistics.network.byteTokens == nil)
      #expect(statistics.usesUring == (backend == .uring))
      let lines = "\(statistics)".split(separator: "\n")
      #expect(
        lines.map { $0.prefix { $0 != ":" } } == [
          "foreground, foreground", "background, background", "all, foreground", "all, background",
        ])
      #expect(lines[0].contains("1 failed, 1 cancelled; 10000 bytes read, 10000 written; waiting "))
    }
  }

  /// An app in background whose network has a rate, and one in front that it talks to.
  private func limited(
    _ backend: IOConfiguration.Backend, _ rate: DevicePolicy.Rate
  ) throws -> (broker: IOBroker, io: AppIO, peer: AppIO) {
    let broker = try makeBroker(backend) {
      $0.network.bytes = rate
      $0.backgroundSockets = .none
    }
    return (
      broker, try broker.makeApp(named: "limited", state: .background), try broker.makeApp(named: "peer")
    )
  }

  /// What was paid for a receive and did not come is there for the next.
  // R-NET-03
  @Test(arguments: backends)
  func whatDidNotComeIsPaidBack(backend: IOConfiguration.Backend) async throws {
    let (broker, io, peer) = try limited(backend, .init(perSecond: 1, burst: 200_000))
    let (server, client) = try await connectedPair(io, peer)
    for _ in 0..<20 {
      try await peer.send(client, from: try IOBuffer(count: 10))
      #expect(try await io.receive(server, into: try IOBuffer(count: 60_000)) == 10)
    }
    #expect(try await (broker.statistics().network.byteTokens ?? 0) >= 199_800)
    for socket in [server, client] { try await io.close(socket) }
  }

  /// With a rate at which the tokens of the whole buffer would take hours.
  // R-NET-03
  @Test(arguments: backends)
  func aFewBytesDoNotWaitForALargeBuffersTokens(backend: IOConfiguration.Backend) async throws {
    let (_, io, peer) = try limited(backend, .init(perSecond: 1, burst: 1000))
    let (server, client) = try await connectedPair(io, peer)
    try await peer.send(client, from: try IOBuffer(count: 10))
    #expect(try await io.receive(server, into: try IOBuffer(count: 60_000), within: .seconds(20)) == 10)
    for socket in [server, client] { try await io.close(socket) }
  }

  /// As of streams; what comes is paid for whole, before the next.
  // R-NET-03
  @Test(arguments: backends)
  func aDatagramIsPaidForWhenItHasCome(backend: IOConfiguration.Backend) async throws {
    let (broker, io, peer) = try limited(backend, .init(perSecond: 1, burst: 1000))
    let (mine, theirs) = try await datagramPair(io, peer)
    let (address, buffer) = (try io.address(of: mine), try IOBuffer(count: 60_000))
    for count in [10, 20, 5000] {
      try await peer.send(theirs, from: try IOBuffer(count: count), to: address)
      #expect(try await io.receiveDatagram(mine, into: buffer, within: .seconds(20)).count == count)
    }
    #expect(try await (broker.statistics().network.byteTokens ?? 0) >= 400)
    let owed = Task { try await io.receiveDatagram(mine, into: buffer, 0..<10) }
    try await eventually("the queue") { try await broker.statistics().network.backgroundQueued == 1 }
    #expect(try await (broker.statistics().network.byteTokens ?? 1000) < 100)
    #expect(try await broker.statistics().background.bytesRead == 5030)
    await broker.shutdown()
    #expect(await code { _ = try await owed.value } == .terminated)
  }

  /// Datagrams are counted, and paid for, whole.
  // R-NET-03
  @Test(arguments: backends)
  func datagramsAreCountedAndLimited(backend: IOConfiguration.Backend) async throws {
    let (broker, io, peer) = try limited(backend, .init(perSecond: 100_000, burst: 1000))
    let (mine, theirs) = try await datagramPair(io, peer)
    let address = try peer.address(of: theirs)
    let (buffer, received) = (try IOBuffer(count: 2000), try IOBuffer(count: 4000))
    let clock = ContinuousClock()
    let start = clock.now
    for _ in 0..<5 {
      try await io.send(mine, from: buffer, to: address)
      #expect(try await peer.receiveDatagram(theirs, into: received).count == 2000)
    }
    // 10,000 bytes but for the burst; less time is a broken promise.
    #expect(clock.now - start >= .milliseconds(85))
    let statistics = try await broker.statistics()
    #expect(statistics.background.bytesWritten == 10_000)
    #expect(statistics.foreground.bytesRead == 10_000)
    for (app, socket) in [(io, mine), (peer, theirs)] { try await app.close(socket) }
  }

  /// What an app did counts on when it is gone, and to swift-metrics each unit once.
  @Test(arguments: backends)
  func metricsAreWhatTheStatisticsSay(backend: IOConfiguration.Backend) async throws {
    let metrics = TestMetrics()
    let broker = try makeBroker(backend) { $0.storage.bytes = .init(perSecond: 1_000_000_000) }
    var reporter = IOMetricsReporter(to: metrics)
    let name = "metrics"
    func read() async throws {
      let io = try broker.makeApp(named: name, state: .background)
      let file = try await io.open("/dev/zero", .readOnly)
      // The device gives less where something else is told to the reading thread.
      #expect(try await io.read(file, into: try IOBuffer(count: 5000), at: 0, untilFull: true) == 5000)
      try await io.close(file)
      reporter.report(try await broker.statistics())
      reporter.report(try await broker.statistics())  // nothing new
    }
    try await read()
    try await eventually("the app's going") { try await broker.statistics().apps.isEmpty }
    try await read()
    #expect(try await broker.statistics().background.bytesRead == 10_000)
    let app = [("app", name), ("class", "background")]
    #expect(try metrics.expectCounter("opportune_io_bytes_read", app).values.reduce(0, +) == 10_000)
    #expect(try metrics.expectCounter("opportune_io_requests", app).values.reduce(0, +) == 6)
    let waiting = try await broker.statistics().background.waiting
    for label in ["opportune_io_waiting", "opportune_io_device"] {
      // Of each piece once; those of the first app are among what is told of the second.
      #expect(try UInt64(metrics.expectTimer(label, app).values.count) == waiting.count)
    }
    for label in ["opportune_io_queued", "opportune_io_in_flight"] {
      for ioClass in ["foreground", "background"] {
        #expect(try metrics.expectGauge(label, [("device", "storage"), ("class", ioClass)]).lastValue == 0)
      }
    }
    #expect(try metrics.expectGauge("opportune_io_background_cap", [("device", "storage")]).lastValue == 4)
    #expect(try metrics.expectGauge("opportune_io_byte_tokens", [("device", "storage")]).lastValue != nil)
  }

  /// What a suspended app has queued waits for the app, not for its turn.
  // R-DISK-02
  @Test(arguments: backends)
  func timeInSuspensionIsNoTimeInTheQueue(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let time = Atomic<UInt64>(1_000_000_000)
      let broker = try makeBroker(backend) {
        $0.triesInline = false
        $0.storage.cap = .adaptive(target: .milliseconds(1), maximum: 8)
        $0.clock = { time.load(ordering: .relaxed) }
      }
      let io = try broker.makeApp(named: "sleeps")
      let file = try await io.open(folder.appending("file"), .readWrite, options: [.create])
      let cap = try await broker.statistics().storage.cap
      io.setState(.suspended)
      let reading = Task { try await io.read(file, into: try IOBuffer(count: 1), at: 0) }
      try await eventually("the queue") { try await broker.statistics().storage.foregroundQueued == 1 }
      time.add(10_000_000_000, ordering: .relaxed)
      io.setState(.active)
      #expect(try await reading.value == 0)
      let statistics = try await broker.statistics()
      #expect(try #require(statistics.foreground.waiting.quantile(1)) < .microseconds(2))
      #expect(statistics.storage.cap == cap)
      try await io.close(file)
    }
  }

  /// Nothing is lost of apps that came and went between two reports, however many.
  @Test(arguments: [5, 100])
  func whatAppsDidThatAreGoneIsReported(count: Int) async throws {
    let metrics = TestMetrics()
    let broker = try makeBroker(.automatic)
    var reporter = IOMetricsReporter(to: metrics)
    for round in 1...2 {
      for number in 0..<count {
        let io = try broker.makeApp(named: "app\(number)", state: .background)
        try await io.nop()
      }
      try await eventually("their going") { try await broker.statistics().apps.isEmpty }
      reporter.report(try await broker.statistics())
      reporter.report(try await broker.statistics())
      #expect(metrics.counterTotal(label: "opportune_io_requests") == Int64(round * count))
      for label in ["opportune_io_waiting", "opportune_io_device"] {
        #expect(metrics.timers(label: label).reduce(0) { $0 + $1.values.count } == round * count)
      }
      // By their names, as far as they are remembered.
      let last = [("app", "app\(count - 1)"), ("class", "background")]
      #expect(try metrics.expectCounter("opportune_io_requests", last).totalValue == round)
    }
  }

  // R-DISK-02
  @Test(arguments: backends)
  func ratesHoldOnARealFile(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) { $0.storage.bytes = .init(perSecond: 4_000_000, burst: 40_000) }
      let io = try broker.makeApp(named: "limited", state: .background)
      let file = try await io.open(folder.appending("limited"), .writeOnly, options: [.create])
      let clock = ContinuousClock()
      let start = clock.now
      for offset in 0..<10 as Range<Int64> {
        try await io.write(file, from: try IOBuffer(count: 40_000), at: offset * 40_000)
      }
      // Less time is a broken promise; more may be the machine's.
      #expect(clock.now - start >= .milliseconds(90))
      try await io.close(file)
    }
  }
}
