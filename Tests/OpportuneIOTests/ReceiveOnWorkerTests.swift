import COpportune
import Foundation
import Glibc
import OpportuneBase
import OpportuneScheduler
import Synchronization
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Receives of active apps that wait where the workers of their scheduler wait.
@Suite(.bounded, .serialized) struct ReceiveOnWorkerTests {
  /// What threads tell each other.
  private final class Mark: Sendable {
    private let word = Atomic<Bool>(false)
    var isSet: Bool { word.load(ordering: .acquiring) }
    func set() { word.store(true, ordering: .releasing) }
  }

  /// An app with a connection that the broker has made, whose other end the test writes to.
  private struct Rig: Sendable {
    let scheduler: Scheduler
    let app: App
    let broker: IOBroker
    let io: AppIO
    let end: FileDescriptor
    let peer: FileDescriptor

    init(
      _ backend: IOConfiguration.Backend = .automatic, _ configuration: SchedulerConfiguration = .init(),
      _ change: (inout IOConfiguration) -> Void = { _ in }
    ) async throws {
      scheduler = try Scheduler(configuration: configuration)
      app = try scheduler.makeApp(named: "front")
      broker = try makeBroker(backend, change)
      io = try broker.makeIO(for: app)
      let other = try broker.makeApp(named: "peer")
      (end, peer) = try await connectedPair(io, other)
    }

    func receive(
      _ count: Int = 64, untilFull: Bool = false, within limit: Duration? = nil
    ) -> Task<[UInt8], any Error> {
      let (app, io, end) = (app, io, end)
      return Task {
        try await app.task {
          let buffer = try IOBuffer(count: count)
          let count = try await io.receive(end, into: buffer, untilFull: untilFull, within: limit)
          return try buffer.bytes(in: 0..<count)
        }.value
      }
    }

    func task<Value: Sendable>(
      _ body: @escaping @Sendable () async throws -> Value
    ) -> Task<Value, any Error> {
      let app = app
      return Task { try await app.task { try await body() }.value }
    }

    var isAwaited: Bool { io.entry.readiness?.isAwaited(end.rawValue) ?? false }

    func waits() async throws { try await eventually("a wait with the workers") { isAwaited } }

    func write(_ bytes: [UInt8]) {
      #expect(bytes.withUnsafeBytes { Glibc.write(peer.rawValue, $0.baseAddress, $0.count) } == bytes.count)
    }

    func end() async throws {
      await broker.shutdown()
      try await scheduler.shutdown()
    }
  }

  // R-NET-03
  /// The receive ends although the reactor stands still: nobody is between the kernel and who waits.
  @Test(arguments: backends) func aReceiveNeedsNoReactor(backend: IOConfiguration.Backend) async throws {
    let rig = try await Rig(backend)
    let gate = await heldReactor(rig.broker)
    defer { gate.signal() }
    for round in 0..<3 {
      let received = rig.receive()
      try await rig.waits()
      rig.write([1, UInt8(round)])
      #expect(try await received.value == [1, UInt8(round)])
    }
    gate.signal()
    let front = try await rig.broker.statistics().apps[0].foreground
    #expect(front.inline >= 3 && front.bytesRead == 6)
    try await rig.end()
  }

  // R-NET-03
  @Test func othersWaitInTheReactor() async throws {
    let rig = try await Rig()
    let before = try await rig.broker.statistics().apps[0].foreground.submitted
    let limited = rig.receive(within: .seconds(60))
    try await eventually("the receive in the reactor") {
      try await rig.broker.statistics().apps[0].foreground.submitted > before
    }
    #expect(!rig.isAwaited)
    rig.write([1])
    #expect(try await limited.value == [1])
    try await rig.end()

    let without = try await Rig { $0.receivesOnWorkers = false }
    #expect(without.io.entry.readiness?.watches(without.end.rawValue) == false)
    let received = without.receive()
    without.write([2])
    #expect(try await received.value == [2])
    try await without.end()
  }

  // R-NET-03 R-CPU-01
  /// Its thread stays in the background's class, and would hold a mutex for which foreground workers wait.
  @Test(.enabled(if: geteuid() == 0, "only root can become an ordinary user"))
  func aBrokerMadeInTheBackgroundsClassWatchesNothing() async {
    await #expect(processExitsWith: .exitCode(7)) {
      var none = rlimit(rlim_cur: 0, rlim_max: 0)
      precondition(setrlimit(__rlimit_resource_t(__RLIMIT_NICE.rawValue), &none) == 0, "the limit is lowered")
      precondition(
        setgroups(0, nil) == 0 && setgid(65534) == 0 && setuid(65534) == 0, "privileges are dropped")
      let scheduler = try Scheduler()
      let broker = try await Self.makeBrokerInBackground()
      let app = try scheduler.makeApp(named: "front")
      let io = try broker.makeIO(for: app)
      let (end, peer) = try await connectedPair(io, try broker.makeApp(named: "peer"))
      precondition(io.entry.readiness?.watches(end.rawValue) == false, "it is not watched")
      let received = Task {
        try await app.task {
          let buffer = try IOBuffer(count: 64)
          return try buffer.bytes(in: 0..<(try await io.receive(end, into: buffer)))
        }.value
      }
      precondition([1].withUnsafeBytes { write(peer.rawValue, $0.baseAddress, 1) } == 1, "the peer writes")
      let bytes = try await received.value
      precondition(bytes == [1], "the receive ends")
      exit(7)
    }
  }

  /// Made on a thread of its own, which moves to `SCHED_IDLE` first.
  private static func makeBrokerInBackground() async throws -> IOBroker {
    try await withCheckedThrowingContinuation { continuation in
      Thread {
        var idle = opp_sched_params()
        idle.policy = OPP_CLASS_IDLE
        precondition(opp_thread_set_sched(0, &idle) == 0, "anybody may become idle")
        continuation.resume(with: Result { try IOBroker() })
      }.start()
    }
  }

  // R-NET-03
  @Test(arguments: backends) func aCloseEndsIt(backend: IOConfiguration.Backend) async throws {
    let rig = try await Rig(backend)
    let received = rig.receive()
    try await rig.waits()
    try await rig.io.close(rig.end)
    #expect(await code { _ = try await received.value } == .system(.canceled))
    #expect(rig.io.entry.readiness?.watches(rig.end.rawValue) == false)
    try await rig.end()
  }

  @Test func aCancellationEndsIt() async throws {
    let rig = try await Rig()
    for _ in 0..<50 {
      let task = rig.app.task {
        try await rig.io.receive(rig.end, into: try IOBuffer(count: 8))
      }
      if Bool.random() { try await rig.waits() }
      task.cancel()
      #expect(await code { _ = try await task.value } == .cancelled)
      #expect(!rig.isAwaited)
    }
    // The connection is as good as before.
    let received = rig.receive()
    rig.write([3])
    #expect(try await received.value == [3])
    try await rig.end()
  }

  // R-FTS-07
  @Test func theEndOfTheAppEndsIt() async throws {
    let rig = try await Rig()
    let received = rig.receive()
    try await rig.waits()
    await rig.io.terminate()
    #expect(await code { _ = try await received.value } == .terminated)
    let late = rig.receive()
    #expect(await code { _ = try await late.value } == .terminated)
    try await rig.end()
  }

  @Test func aHangUpEndsIt() async throws {
    let rig = try await Rig()
    let received = rig.receive()
    try await rig.waits()
    #expect(Glibc.shutdown(rig.peer.rawValue, Int32(SHUT_WR)) == 0)
    #expect(try await received.value == [])
    #expect(try await rig.receive().value == [])  // and the next does not wait
    try await rig.end()
  }

  @Test func untilFullWaitsForTheRest() async throws {
    let rig = try await Rig()
    let received = rig.receive(6, untilFull: true)
    for byte in UInt8(1)...6 {
      try await rig.waits()
      rig.write([byte])
    }
    #expect(try await received.value == [1, 2, 3, 4, 5, 6])
    try await rig.end()
  }

  // R-FTS-08
  /// What comes for a suspended app resumes nobody before the app is resumed, and is reported meanwhile, also
  /// where the task is none of the app's.
  @Test(arguments: [true, false]) func aSuspendedAppReceivesLater(ofTheApp: Bool) async throws {
    let (told, hasReturned) = (Awaited(), Mark())
    let rig = try await Rig {
      $0.heldCompletions = .report
      $0.onHeldCompletion = { _ in told.tell() }
      $0.suspendedSockets = .none
    }
    let body: @Sendable () async throws -> Int = {
      let count = try await rig.io.receive(rig.end, into: try IOBuffer(count: 8))
      #expect(rig.app.activity == .active)
      return count
    }
    let received = ofTheApp ? rig.task(body) : Task { try await body() }
    let all = Task {
      defer { hasReturned.set() }
      return try await received.value
    }
    try await rig.waits()
    rig.app.suspend()
    rig.write([1, 2])
    #expect(await told.wait())
    #expect(!hasReturned.isSet)
    rig.app.resume()
    #expect(try await all.value == 2)
    try await rig.end()
  }

  // R-NET-07
  /// An app that goes to the background while it waits receives there, by the reactor; back again, it waits
  /// with the workers.
  @Test func aChangeOfBandIsFollowed() async throws {
    let rig = try await Rig()
    for round in UInt8(0)..<3 {
      let received = rig.receive()
      try await rig.waits()
      try rig.app.setBand(.background)
      rig.write([round])
      #expect(try await received.value == [round])
      let before = try await rig.broker.statistics().apps[0].background.submitted
      let next = rig.receive()
      try await eventually("a receive in the background's class") {
        try await rig.broker.statistics().apps[0].background.submitted > before
      }
      #expect(!rig.isAwaited)
      // What comes for it wakes no worker of the foreground.
      #expect(rig.io.entry.readiness?.watches(rig.end.rawValue) == false)
      rig.write([9])
      #expect(try await next.value == [9])
      try rig.app.setBand(.foreground)
      // The first receive that reaches the reactor has the socket watched again.
      let first = rig.receive()
      try await eventually("a watched socket") {
        rig.io.entry.readiness?.watches(rig.end.rawValue) == true
      }
      rig.write([7])
      #expect(try await first.value == [7])
    }
    try await rig.end()
  }

  // R-CPU-02
  /// Where each run token is with a hog, a receive waits no longer than other fresh work does.
  @Test func hogsDoNotStopReceives() async throws {
    var configuration = SchedulerConfiguration()
    configuration.workers = .fixed(1)
    let rig = try await Rig(.automatic, configuration)
    let hogs = try rig.scheduler.makeApp(named: "hogs")
    let (isOver, begun, hasEnded) = (Mark(), Mark(), Mark())
    for _ in 0..<4 {
      try hogs.submit {
        begun.set()
        // It ends by itself where the receives wait for it; by its CPU time, so not sooner on a busy machine.
        let end = SystemClock.threadCPU() + 30_000_000_000
        while !isOver.isSet, SystemClock.threadCPU() < end {}
        hasEnded.set()
      }
    }
    try await eventually("a hog") { begun.isSet }
    for round in UInt8(0)..<5 {
      let received = rig.receive()
      try await rig.waits()
      rig.write([round])
      #expect(try await received.value == [round])
    }
    #expect(!hasEnded.isSet, "no receive waits for the end of a hog")
    isOver.set()
    try await rig.end()
  }

  /// The scheduler ends while a receive waits: what comes then is still received.
  @Test func itOutlivesItsScheduler() async throws {
    let rig = try await Rig()
    let received = Task { try await rig.io.receive(rig.end, into: try IOBuffer(count: 8)) }
    try await rig.waits()
    try await rig.scheduler.shutdown()
    #expect(!rig.isAwaited)
    rig.write([1])
    #expect(try await received.value == 1)
    await rig.broker.shutdown()
  }

  // R-NET-03
  /// Many connections, each byte in its place: what comes at any time, before, while and after a receive is
  /// about to wait, with receives that are cancelled meanwhile.
  @Test(arguments: backends) func manyConnections(backend: IOConfiguration.Backend) async throws {
    let rig = try await Rig(backend)
    let (connections, rounds) = (24, 150)
    var pairs: [(FileDescriptor, FileDescriptor)] = []
    let peer = try rig.broker.makeApp(named: "other")
    for _ in 0..<connections { pairs.append(try await connectedPair(rig.io, peer)) }
    let tasks = pairs.map { server, _ in
      rig.app.task {
        let buffer = try IOBuffer(count: 16)
        for round in 0..<rounds {
          let count = try await rig.io.receive(server, into: buffer)
          guard try buffer.bytes(in: 0..<count) == [UInt8(truncatingIfNeeded: round)] else { return false }
          try await rig.io.send(server, from: buffer, 0..<count)
        }
        return try await rig.io.receive(server, into: buffer) == 0
      }
    }
    let clients = pairs.map(\.1.rawValue)
    let answers = await onAThread {
      var right = 0
      for round in 0..<rounds {
        for client in clients {
          var byte = UInt8(truncatingIfNeeded: round)
          right += Glibc.write(client, &byte, 1)
        }
        for client in clients {
          var byte: UInt8 = 0
          if Glibc.read(client, &byte, 1) == 1, byte == UInt8(truncatingIfNeeded: round) { right += 1 }
        }
      }
      for client in clients { Glibc.shutdown(client, Int32(SHUT_WR)) }
      return right
    }
    #expect(answers == 2 * connections * rounds)
    for task in tasks { #expect(try await task.value) }
    try await rig.end()
  }
}
