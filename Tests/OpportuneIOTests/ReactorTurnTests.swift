import COpportune
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Races of messages, looks and completions within one turn of the reactor, caused there by messages of the
/// test.
@Suite(.bounded) struct ReactorTurnTests {
  /// A suspension that the reactor has not been told of when it hands requests over.
  // R-FTS-06
  @Test(arguments: backends)
  func nothingIsHandedOverAfterASuspension(backend: IOConfiguration.Backend) async throws {
    let seen = Numbers()
    let broker = try makeBroker(backend) {
      $0.fault = { op in
        if op.code == UInt8(opp_ring_code.OPP_RING_FSYNC.rawValue) { seen.add(1) }
        return nil
      }
    }
    let io = try broker.makeApp(named: "suspended")
    let file = try FileDescriptor.open("/dev/null", .readWrite)
    inOneTurn(broker) {
      broker.reactor.post(Request(io.call(.OPP_RING_FSYNC, .storage, file)))
      // Before any other message, such as a question for statistics, has the reactor look at the app.
      broker.reactor.post(
        Control { reactor in
          io.setState(.suspended)
          reactor.path.dispatchAll()
        })
    }
    #expect(try await broker.statistics().storage.foregroundQueued == 1)
    #expect(seen.count == 0)
    io.setState(.active)
    try await eventually("the request") { seen.count == 1 }
    try file.close()
  }

  /// What waits in no queue, as the end of a connection's half, is looked at once, as it comes.
  // R-FTS-06
  @Test(arguments: backends)
  func nothingGoesOnThatComesAfterASuspension(backend: IOConfiguration.Backend) async throws {
    let seen = Numbers()
    let broker = try makeBroker(backend) {
      $0.fault = { op in
        if op.code == UInt8(opp_ring_code.OPP_RING_SHUTDOWN.rawValue) { seen.add(1) }
        return nil
      }
    }
    let io = try broker.makeApp(named: "suspended")
    let (mine, theirs) = try descriptorPair()
    var call = io.call(.OPP_RING_SHUTDOWN, .none, mine)
    call.op.length = UInt32(SHUT_WR)
    let request = Request(call)
    inOneTurn(broker) {
      broker.reactor.post(Control { _ in io.setState(.suspended) })
      broker.reactor.post(request)
    }
    // Asked behind the request, which is parked or on its way by then.
    #expect(try await broker.statistics().apps[0].inFlight == 0)
    #expect(seen.count == 0)
    io.setState(.active)
    try await eventually("the request") { seen.count == 1 }
    for end in [mine, theirs] { try end.close() }
  }

  /// A request that has to be made again, of an app that was suspended since.
  // R-FTS-06
  @Test(arguments: backends)
  func nothingIsMadeAgainAfterASuspension(backend: IOConfiguration.Backend) async throws {
    let (asked, apps) = (Numbers(), Box<AppIO>())
    let broker = try makeBroker(backend) {
      $0.fault = { op in
        guard op.code == UInt8(opp_ring_code.OPP_RING_FSYNC.rawValue) else { return nil }
        asked.add(1)
        guard asked.count == 1 else { return nil }
        apps.value?.setState(.suspended)
        return -EINTR
      }
    }
    let io = try broker.makeApp(named: "suspended")
    apps.value = io
    let file = try FileDescriptor.open(FileManager.default.temporaryDirectory.path, .readOnly)
    let synchronizing = Task { try await io.synchronize(file) }
    // It is queued before it is first made, too.
    try await eventually("the first answer") { asked.count == 1 }
    try await eventually("the queue") { try await broker.statistics().storage.foregroundQueued == 1 }
    #expect(asked.count == 1)
    io.setState(.active)
    try await synchronizing.value
    #expect(asked.count == 2)
    apps.value = nil
    try file.close()
  }

  /// The cancellation's message may come first.
  @Test(arguments: backends)
  func whatWasCancelledOnItsWayIsNotBegun(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "cancelled")
    let ends = try FileDescriptor.pipe()
    var call = io.call(.OPP_RING_READ, .storage, ends.readEnd)
    try call.use(try IOBuffer(count: 1), nil)
    call.useOwnPosition()
    let request = Request(call)
    inOneTurn(broker) {
      broker.reactor.post(Control { $0.path.end(request, early: .cancelled) })
      broker.reactor.post(request)
    }
    let app = try await broker.statistics().apps[0]
    #expect(app.inFlight == 0 && app.foreground.cancelled == 1)
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }

  /// The kernel has a close's other requests still: what comes now would reach whatever gets the number next.
  /// What began before the close ends as those do.
  @Test(arguments: backends)
  func nothingIsBegunOnADescriptorThatIsClosing(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend) {
      let cancels = [opp_ring_code.OPP_RING_CANCEL, .OPP_RING_CANCEL_FD].map { UInt8($0.rawValue) }
      $0.fault = { cancels.contains($0.code) ? -ENOENT : nil }
    }
    let io = try broker.makeApp(named: "closes")
    let (mine, theirs) = try descriptorPair()
    let receiving = Task { try await io.receive(mine, into: try IOBuffer(count: 1)) }
    try await eventually("the receive") { try await broker.statistics().apps[0].inFlight == 1 }
    var earlier = io.call(.OPP_RING_RECEIVE, .network, mine)
    try earlier.use(try IOBuffer(count: 1), nil)
    let closing = Task { try await io.close(mine) }
    try await eventually("the close") { try await broker.statistics().foreground.submitted == 2 }
    let request = io.request(of: earlier, done: 0, within: .seconds(10))
    #expect(await code { _ = try await io.carryOut(request) } == .system(.canceled))
    #expect(
      await code { _ = try await io.receive(mine, into: try IOBuffer(count: 1), within: .seconds(10)) }
        == .system(.badFileDescriptor))
    _ = try theirs.writeAll("x".utf8)
    #expect(try await receiving.value == 1)
    try await closing.value
    try theirs.close()
  }

  /// A zero-copy send that the kernel has not yet answered at the moment at which its app ends or its socket
  /// is closed. The peer reads nothing, so the buffer stays.
  // R-FTS-07
  @Test(arguments: [true, false])
  func zeroCopySendsHoldUpNothing(isClosed: Bool) async throws {
    guard let broker = try makeZeroCopyBroker() else { return }
    let io = try broker.makeApp(named: "sender")
    let peer = try broker.makeApp(named: "peer")
    let (server, client) = try await connectedPair(peer, io)
    let ended = Numbers()
    var call = io.call(.OPP_RING_SEND, .network, client)
    try call.use(try IOBuffer(count: 64 << 20), nil)
    call.isStream = true
    let (send, close) = (Request(call), Request(io.call(.OPP_RING_CLOSE, .none, client)))
    inOneTurn(broker) {
      broker.reactor.post(send)
      broker.reactor.post(
        Control { reactor in
          reactor.path.dispatchAll()
          if !isClosed { reactor.termination.terminate(io.entry) { ended.add(1) } }
        })
      if isClosed { broker.reactor.post(close) }
    }
    if !isClosed { try await eventually("the end") { ended.count == 1 } }
    try await eventually("the answers") {
      let requests = try await broker.statistics().apps[0].foreground
      return requests.submitted == requests.completed + requests.failed + requests.cancelled
    }
    #expect(try await broker.statistics().apps[0].openDescriptors == 0)
    #expect(try await broker.statistics().apps[0].inFlight == 1)
    // The peer's close lets go of the buffer.
    try await peer.close(server)
    await broker.shutdown()
  }

  /// However late the peer reads: the place in the device's queue is others'.
  // R-NET-03
  @Test func zeroCopySendsGiveTheirPlaceBack() async throws {
    guard let broker = try makeZeroCopyBroker({ $0.network.depth = 2 }) else { return }
    let io = try broker.makeApp(named: "sender")
    let peer = try broker.makeApp(named: "peer")
    var servers: [FileDescriptor] = []
    for _ in 0..<4 {
      let (server, client) = try await connectedPair(peer, io)
      servers.append(server)
      Task { try? await io.send(client, from: try IOBuffer(count: 64 << 20)) }
    }
    try await eventually("the sends") {
      let statistics = try await broker.statistics()
      return statistics.apps[0].inFlight == 4 && statistics.network.foregroundInFlight == 0
    }
    #expect(try await broker.statistics().foreground.bytesWritten > 0)
    await io.terminate()
    for server in servers { try await peer.close(server) }
    await broker.shutdown()
  }

  /// One transfer's next piece goes before another's first; and what became background while it waited is
  /// cut.
  // R-DISK-02, R-NET-07
  @Test(arguments: backends)
  func piecesGoInTheOrderOfTheirRequests(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let pieces = Numbers()
      let broker = try makeBroker(backend) {
        $0.storage.chunk = 4096
        $0.storage.cap = .fixed(1)
        $0.fault = { op in
          guard op.code == UInt8(opp_ring_code.OPP_RING_WRITE.rawValue) else { return nil }
          #expect(op.length == 4096)
          pieces.add(Int(op.offset) / 4096)
          return nil
        }
      }
      let io = try broker.makeApp(named: "cut", state: .active)
      let file = try await io.open(folder.appending("a"), .readWrite, options: [.create])
      io.setState(.suspended)
      var writing: [Task<Int, any Error>] = []
      for number in 0..<3 as Range<Int64> {
        writing.append(
          Task { try await io.write(file, from: try IOBuffer(count: 3 * 4096), at: number * 12288) })
        try await eventually("the queue") {
          try await broker.statistics().storage.foregroundQueued == writing.count
        }
      }
      io.setState(.background)
      for task in writing { #expect(try await task.value == 12288) }
      #expect(pieces.values == Array(0..<9))
      try await io.close(file)
    }
  }

  /// What was queued while its app was of the foreground pays as background for its next piece, and not for
  /// all that is left of it, which would be minutes' worth: nor, where it stays background, once its app is
  /// of the foreground.
  // R-DISK-02, R-NET-06, R-NET-07
  @Test(arguments: backends, DevicePolicy.QueuedRequests.allCases)
  func largeTransfersPayPieceByPiece(
    backend: IOConfiguration.Backend, queued: DevicePolicy.QueuedRequests
  ) async throws {
    try await withFolder { folder in
      let (pieces, apps) = (Numbers(), Box<AppIO>())
      let broker = try makeBroker(backend) {
        $0.storage.bytes = .init(perSecond: 100_000, burst: 4096)
        $0.storage.chunk = 4096
        $0.storage.queuedRequests = queued
        $0.fault = { op in
          guard op.code == UInt8(opp_ring_code.OPP_RING_WRITE.rawValue) else { return nil }
          pieces.add(Int(op.length))
          if queued == .stay { apps.value?.setState(.active) }
          return nil
        }
      }
      let large = try broker.makeApp(named: "large")
      let small = try broker.makeApp(named: "small", state: .background)
      let file = try await large.open(folder.appending("a"), .readWrite, options: [.create])
      large.setState(queued == .stay ? .background : .suspended)
      let writing = Task { try await large.write(file, from: try IOBuffer(count: 64 << 20), at: 0) }
      if queued == .follow {
        try await eventually("the queue") { try await broker.statistics().storage.foregroundQueued == 1 }
        large.setState(.background)
      } else {
        apps.value = large
      }
      try await eventually("the first pieces") { pieces.count >= 2 }
      try await small.write(file, from: try IOBuffer(count: 4096), at: 64 << 20, within: .seconds(20))
      #expect(pieces.values.allSatisfy { $0 == 4096 })
      writing.cancel()
      #expect(await code { _ = try await writing.value } == .cancelled)
      apps.value = nil
      try await small.close(file)
      await broker.shutdown()
    }
  }

  /// Deadlines far off, of requests that have ended, are let go of before there are many.
  @Test func deadlinesThatAreOverAreForgotten() async throws {
    let (broker, io) = try makeApp(.threads, named: "deadlines")
    let counts = Numbers()
    let ends = try FileDescriptor.pipe()
    // Before all others, so that none of them comes to the top.
    let reading = Task {
      try await io.read(ends.readEnd, into: try IOBuffer(count: 1), within: .seconds(1800))
    }
    try await eventually("the read") { try await broker.statistics().apps[0].inFlight == 1 }
    for _ in 0..<2000 { try await io.nop(within: .seconds(3600)) }
    broker.reactor.post(Control { counts.add($0.timers.count) })
    _ = try await broker.statistics()
    #expect(counts.values[0] <= 1024)
    reading.cancel()
    #expect(await code { _ = try await reading.value } == .cancelled)
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }

  /// Thousands of messages of one app: what the kernel has done for others is looked at in between.
  // R-NET-03
  @Test(arguments: backends)
  func aFloodOfMessagesHoldsUpNoCompletion(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "reader")
    let ends = try FileDescriptor.pipe()
    let reading = Task { try await io.read(ends.readEnd, into: try IOBuffer(count: 1)) }
    try await eventually("the read") { try await broker.statistics().apps[0].inFlight == 1 }
    let (heard, heardBefore) = (Numbers(), Numbers())
    inOneTurn(broker) {
      broker.reactor.post(Control { _ in _ = try? ends.writeEnd.writeAll("x".utf8) })
      for _ in 0..<5000 {
        broker.reactor.post(
          Control { _ in
            heard.add(1)
            if !io.entry.inFlight.isEmpty { heardBefore.add(1) }
          })
      }
    }
    #expect(try await reading.value == 1)
    try await eventually("the messages") { heard.count == 5000 }
    #expect(heardBefore.count < 1000)
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }

  /// What a message holds may be of a background thread's making, whose allocator's lock the reactor must not
  /// wait for.
  @Test(arguments: backends)
  func messagesAreFreedElsewhere(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend)
    let (reactor, freeing) = (Numbers(), Numbers())
    inOneTurn(broker) {
      let held = Held { freeing.add(Int(truncatingIfNeeded: pthread_self())) }
      broker.reactor.post(
        Control { _ in
          withExtendedLifetime(held) {}
          reactor.add(Int(truncatingIfNeeded: pthread_self()))
        })
    }
    try await eventually("the end of what it held") { freeing.count == 1 }
    #expect(freeing.values != reactor.values)
  }

  /// Those that are left of a turn when the broker ends are refused, as all that come afterwards.
  @Test(arguments: backends)
  func messagesLeftAtTheEndAreRefused(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend)
    let (heard, refused) = (Numbers(), Numbers())
    inOneTurn(broker) {
      broker.reactor.post(Control { $0.shutDown {} })
      for _ in 0..<1000 { broker.reactor.post(Control(refused: { refused.add(1) }) { _ in heard.add(1) }) }
    }
    await broker.shutdown()
    try await eventually("all") { heard.count + refused.count == 1000 }
    #expect(refused.count > 0)
  }

  /// Each telling may wake a thread: foreground's comes before that of what ended first.
  // R-NET-03
  @Test(arguments: backends)
  func foregroundIsAnsweredFirst(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend)
    let ends = try FileDescriptor.pipe()
    let resumed = Numbers()
    let requests = try [IOState.background, .active].map { state in
      var call = try broker.makeApp(named: "\(state)", state: state).call(
        .OPP_RING_READ, .storage, ends.readEnd)
      try call.use(try IOBuffer(count: 1), nil)
      call.useOwnPosition()
      call.lookAtFile()
      return Request(call)
    }
    let reads = requests.enumerated().map { number, request in
      Task(executorPreference: Teller { resumed.add(number) }) {
        try await request.call.app.carryOut(request)
      }
    }
    try await eventually("the reads") { try await broker.statistics().apps.allSatisfy { $0.inFlight == 1 } }
    let before = resumed.count
    broker.reactor.post(
      Control { reactor in for request in requests { reactor.path.end(request, early: .deadlineExceeded) } })
    for read in reads { #expect(await code { _ = try await read.value } == .deadlineExceeded) }
    #expect(resumed.values[before] == 1)
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }
}

private final class Held: Sendable {
  private let tell: @Sendable () -> Void
  init(_ tell: @escaping @Sendable () -> Void) { self.tell = tell }
  deinit { tell() }
}

/// Tells of each job on the thread that hands it over, which is the one that resumes its task.
private final class Teller: TaskExecutor {
  private let tell: @Sendable () -> Void
  init(_ tell: @escaping @Sendable () -> Void) { self.tell = tell }

  func enqueue(_ job: consuming ExecutorJob) {
    tell()
    let job = UnownedJob(job)
    DispatchQueue.global().async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}

/// Set before what reads it begins.
private final class Box<Value>: @unchecked Sendable {
  // Sendable: see above.
  var value: Value?
}
