import COpportune
import Foundation
import OpportuneScheduler
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// How requests end before their time, and what is held while an app is suspended.
@Suite(.bounded) struct LifetimeTests {
  /// A pipe: reading from it waits for as long as the test wants.
  private func pipe() throws -> (read: FileDescriptor, write: FileDescriptor) {
    let ends = try FileDescriptor.pipe()
    return (ends.readEnd, ends.writeEnd)
  }

  @Test(arguments: backends)
  func cancellingATaskCancelsInTheKernel(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "cancelled")
    let ends = try pipe()
    let buffer = try IOBuffer(count: 10)
    let task = Task { try await io.read(ends.read, into: buffer) }
    try await eventually("the read") { try await broker.statistics().apps[0].inFlight == 1 }
    #expect(buffer.isInUse)
    task.cancel()
    #expect(await code { _ = try await task.value } == .cancelled)
    #expect(!buffer.isInUse)
    // What comes later is not read into it.
    _ = try ends.write.writeAll("late".utf8)
    #expect(try buffer.bytes() == [UInt8](repeating: 0, count: 10))
    #expect(try await io.read(ends.read, into: buffer) == 4)
    // Before it began.
    let before = Task {
      while !Task.isCancelled { await Task.yield() }
      return try await io.read(ends.read, into: buffer)
    }
    before.cancel()
    #expect(await code { _ = try await before.value } == .cancelled)
    #expect(!buffer.isInUse)
    for end in [ends.read, ends.write] { try end.close() }
  }

  @Test(arguments: backends)
  func deadlinesEndCalls(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "late")
    let ends = try pipe()
    let buffer = try IOBuffer(count: 10)
    #expect(
      await code { _ = try await io.read(ends.read, into: buffer, within: .milliseconds(5)) }
        == .deadlineExceeded)
    try await eventually("the buffer's release") { !buffer.isInUse }
    #expect(await code { _ = try await io.read(ends.read, into: buffer, within: .zero) } == .deadlineExceeded)
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    #expect(await code { _ = try await listener.accept(within: .milliseconds(2)) } == .deadlineExceeded)
    #expect(await code { try await io.shutdown(listener.descriptor, within: .zero) } == .deadlineExceeded)
    #expect(
      await code { for try await _ in try io.chunks(of: "/dev/zero", within: .zero) {} } == .deadlineExceeded)
    // In the queue.
    io.setState(.suspended)
    let queued = Task { try await io.read(ends.read, into: buffer, within: .milliseconds(5)) }
    try await eventually("the deadline") { try await broker.statistics().apps[0].held == 1 }
    io.setState(.active)
    #expect(await code { _ = try await queued.value } == .deadlineExceeded)
    try await listener.close()
    for end in [ends.read, ends.write] { try end.close() }
  }

  /// The caller is gone at the deadline and drops its buffer, and the kernel still writes to it: the request
  /// holds it until then, and no longer. No sanitizer sees what the kernel writes, so the buffer itself is
  /// looked at.
  @Test(arguments: backends)
  func buffersOutliveTheirCallers(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend) {
      // The kernel never hears of the cancellation, so the receive stays.
      $0.fault = { $0.code == UInt8(opp_ring_code.OPP_RING_CANCEL.rawValue) ? -ENOENT : nil }
    }
    let io = try broker.makeApp(named: "gone")
    let (server, client) = try await connectedPair(io)
    // On a loaded machine the deadline may come before the kernel has the request: each time it is a little
    // later.
    var stayed = 0
    for attempt in 1...100 where stayed < 10 {
      weak var seen: IOBuffer?
      do {
        let buffer = try IOBuffer(count: 4096, alignment: 16)
        seen = buffer
        let late = await code {
          _ = try await io.receive(server, into: buffer, within: .milliseconds(attempt))
        }
        #expect(late == .deadlineExceeded)
      }
      guard try await broker.statistics().apps[0].inFlight == 1 else { continue }
      stayed += 1
      #expect(seen != nil && seen?.isInUse == true)
      #expect(send(client.rawValue, [7], 1, Int32(MSG_NOSIGNAL)) == 1)
      try await eventually("the kernel's letting go") { try await broker.statistics().apps[0].inFlight == 0 }
      try await eventually("the buffer's end") { seen == nil }
    }
    #expect(stayed == 10)
    for socket in [server, client] { try await io.close(socket) }
  }

  /// The lock of the allocator may be held by a background thread that the kernel has stopped: the reactor's
  /// thread frees nothing that callers have left behind.
  // R-DISK-01
  @Test(arguments: backends)
  func whatCallersLeaveBehindIsFreedElsewhere(backend: IOConfiguration.Backend) async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "gone")
    let broker = try makeBroker(backend) {
      $0.fault = { $0.code == UInt8(opp_ring_code.OPP_RING_CANCEL.rawValue) ? -ENOENT : nil }
    }
    let threads = Numbers()
    broker.reactor.post(Control { _ in threads.add(Int(opp_thread_id())) })
    let ends = try pipe()
    do {
      let told = AtItsEnd { threads.add(Int(opp_thread_id())) }
      let io = try broker.makeIO(for: app, limits: { told.limits })
      var call = io.call(.OPP_RING_READ, .storage, ends.read)
      try call.use(try IOBuffer(count: 1), nil)
      call.useOwnPosition()
      call.lookAtFile()
      let read = Request(call)
      let reading = Task { try await io.carryOut(read) }
      try await eventually("the read") { try await broker.statistics().apps[0].inFlight == 1 }
      broker.reactor.post(Control { $0.path.end(read, early: .deadlineExceeded) })
      #expect(await code { _ = try await reading.value } == .deadlineExceeded)
    }
    _ = try ends.write.writeAll("x".utf8)
    // With the request goes the last that holds its app's I/O.
    try await eventually("the end") { threads.count == 2 }
    #expect(threads.values[0] != threads.values[1])
    for end in [ends.read, ends.write] { try end.close() }
    await broker.shutdown()
    try await scheduler.shutdown()
  }

  /// A change of state that is told after the app was forgotten: the next app has its slot, and keeps its
  /// own state.
  // R-DISK-01
  @Test(arguments: backends)
  func whoWasForgottenChangesNobodyElse(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend)
    let gone = try broker.makeApp(named: "gone").entry
    try await eventually("the end") { try await broker.statistics().apps.isEmpty }
    let io = try broker.makeApp(named: "next")
    #expect(io.entry.slot == gone.slot)
    #expect(gone.source.set(.suspended))
    broker.reactor.stateChanged(of: gone)
    try await io.nop(within: .seconds(60))
    await broker.shutdown()
  }

  /// An object with a weak reference counts all its references in a table beside it, and slowly: none of
  /// those that every call counts may have one.
  @Test func whatEachCallRetainsHasNoTableOfReferences() async throws {
    func hasTable(_ object: AnyObject) -> Bool {
      // The two highest bits of the second word: how the runtime marks such an object.
      unsafeBitCast(object, to: UnsafePointer<UInt64>.self)[1] >> 62 == 3
    }
    let scheduler = try Scheduler()
    let broker = try makeBroker(.automatic)
    let io = try broker.makeIO(for: try scheduler.makeApp(named: "called"))
    try await io.nop()
    for object in [io, io.entry, io.entry.source, io.entry.inline, broker, broker.reactor] as [AnyObject] {
      #expect(!hasTable(object), "\(type(of: object))")
    }
    weak let weakly = broker.reactor
    #expect(weakly != nil && hasTable(broker.reactor))  // so it would have been seen
    await broker.shutdown()
    try await scheduler.shutdown()
  }

  @Test func aMessageAndItsLinkAreOneAllocation() {
    let message = Control { _ in }
    let start = UnsafeRawPointer(Unmanaged.passUnretained(message).toOpaque())
    // Right behind the two words that each object begins with.
    #expect(UnsafeRawPointer(message.link.address) == start + 16)
  }

  private final class AtItsEnd: Sendable {
    private let body: @Sendable () -> Void
    var limits: IOLimits? { nil }
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    deinit { body() }
  }

  /// 64 writes, an accept and a read are the kernel's at the moment at which their app ends: in one turn of
  /// the reactor they are sent, counted, and the app is terminated.
  // R-FTS-07
  @Test(arguments: backends)
  func writesInFlightReachTheFileAtTermination(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) {
        $0.storage = .uncontrolled
        $0.threads = 64
        $0.suspendedSockets = .none
      }
      let io = try broker.makeApp(named: "terminated")
      let ends = try pipe()
      let path = folder.appending("all")
      let file = try await io.open(path, .readWrite, options: [.create])
      _ = try await io.open(path, .readOnly)  // left open
      let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
      io.setState(.suspended)
      let ended = Numbers()
      let inFlight = Numbers()
      try await withThrowingTaskGroup { group in
        for number in 0..<64 {
          let buffer = try IOBuffer(copying: [UInt8](repeating: UInt8(number + 1), count: 65_536))
          group.addTask { ended.add(try await io.write(file, from: buffer, at: Int64(number) * 65_536)) }
        }
        group.addTask { #expect(await code { _ = try await listener.accept() } == .terminated) }
        group.addTask {
          #expect(
            await code { _ = try await io.read(ends.read, into: try IOBuffer(count: 1)) } == .terminated)
        }
        try await eventually("the queue") {
          let statistics = try await broker.statistics()
          return statistics.storage.foregroundQueued + statistics.network.foregroundQueued == 66
        }
        inOneTurn(broker) {
          io.setState(.active)
          broker.reactor.post(
            Control { reactor in
              reactor.path.dispatchAll()
              inFlight.add(io.entry.inFlight.count)
              reactor.termination.terminate(io.entry) {}
            })
        }
        try await group.waitForAll()
        await io.terminate()  // again: returns when all is over
      }
      #expect(inFlight.values == [66])
      #expect(ended.values == Array(repeating: 65_536, count: 64))
      let contents = [UInt8](try Data(contentsOf: URL(fileURLWithPath: path.string)))
      #expect(contents.count == 64 * 65_536)
      for number in 0..<64 {
        #expect(contents[number * 65_536..<(number + 1) * 65_536].allSatisfy { $0 == UInt8(number + 1) })
      }
      #expect(await code { _ = try await io.open(path, .readOnly) } == .terminated)
      for end in [ends.read, ends.write] { try end.close() }
      await broker.shutdown()
      await broker.shutdown()
      #expect(await code { _ = try await io.open(path, .readOnly) } == .unavailable)
      #expect(await code { _ = try broker.makeApp(named: "late") } == .unavailable)
      #expect(await code { _ = try await broker.statistics() } == .unavailable)
    }
  }

  // R-FTS-07
  @Test(arguments: backends)
  func terminationClosesWhatTheAppOpened(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "closed")
    let (server, client) = try await connectedPair(io)
    let file = try await io.open("/dev/zero", .readOnly)
    #expect(try await broker.statistics().apps[0].openDescriptors == 3)
    let inodes = [server, client, file].map { inode($0) }
    await io.terminate()
    try await eventually("the closing") {
      zip([server, client, file], inodes).allSatisfy { inode($0) != $1 }
    }
  }

  /// Which file a descriptor is of; another test may have its number by now.
  private func inode(_ descriptor: FileDescriptor) -> [UInt64] {
    var about = stat()
    guard fstat(descriptor.rawValue, &about) == 0 else { return [] }
    return [UInt64(about.st_dev), UInt64(about.st_ino), UInt64(about.st_rdev)]
  }

  // R-FTS-07, R-FTS-08
  @Test(arguments: backends, IOConfiguration.HeldCompletions.allCases)
  func completionsOfASuspendedAppWait(
    backend: IOConfiguration.Backend, policy: IOConfiguration.HeldCompletions
  ) async throws {
    let reported = Numbers()
    let broker = try makeBroker(backend) {
      // What is tried inline counts as in flight, and goes to the queue where its app is suspended meanwhile.
      $0.triesInline = false
      $0.heldCompletions = policy
      $0.onHeldCompletion = { _ in reported.add(1) }
    }
    let io = try broker.makeApp(named: "suspended")
    let ends = try pipe()
    let done = Numbers()
    let tasks = (0..<3).map { number in
      Task {
        let count = try await io.read(ends.read, into: try IOBuffer(count: 1))
        done.add(number)
        return count
      }
    }
    try await eventually("the reads") {
      let app = try await broker.statistics().apps[0]
      // Not one that is still tried inline.
      return app.foreground.submitted == 3 && app.inFlight == 3
    }
    io.setState(.suspended)
    #expect(try await broker.statistics().apps[0].state == .suspended)
    _ = try ends.write.writeAll("abc".utf8)
    try await eventually("the answers") { try await broker.statistics().apps[0].held == 3 }
    // Submitted while suspended: stays in our queue.
    let later = Task { try await io.read(ends.read, into: try IOBuffer(count: 1)) }
    try await eventually("the queue") { try await broker.statistics().storage.foregroundQueued == 1 }
    #expect(try await broker.statistics().apps[0].inFlight == 0)
    #expect(done.count == 0)
    #expect(reported.count == (policy == .report ? 1 : 0))
    _ = try ends.write.writeAll("d".utf8)
    io.setState(.active)
    for task in tasks { #expect(try await task.value == 1) }
    #expect(try await later.value == 1)
    #expect(done.count == 3)
    for end in [ends.read, ends.write] { try end.close() }
  }

  // R-NET-07, R-FTS-06
  @Test(arguments: backends)
  func followsTheSchedulersApp(backend: IOConfiguration.Backend) async throws {
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "app", band: .background)
    let broker = try makeBroker(backend)
    let io = try broker.makeIO(for: app)
    #expect(io.state == .background)
    try app.setBand(.foreground)
    #expect(io.state == .active)
    app.suspend()
    #expect(io.state == .suspended)
    let reading = Task { try await io.readFile("/proc/self/status").count }
    try await eventually("the queue") {
      let storage = try await broker.statistics().storage
      return storage.backgroundQueued + storage.foregroundQueued == 1
    }
    try app.setBand(.background)
    #expect(io.state == .suspended)
    io.setState(.active)  // not the caller's to set
    #expect(io.state == .suspended)
    app.resume()
    #expect(io.state == .background)
    #expect(try await reading.value > 0)
    #expect(try await broker.statistics().apps[0].state == .background)
    await broker.shutdown()
    try await scheduler.shutdown()
  }

  @Test(arguments: backends)
  func aBrokerThatIsDroppedEndsItsThread(backend: IOConfiguration.Backend) async throws {
    weak var reactor: Reactor?
    do {
      let broker = try makeBroker(backend)
      reactor = broker.reactor
      // A deadline that is far off holds nobody.
      let io = try broker.makeApp(named: "dropped")
      _ = try await io.readFile("/proc/self/status", within: .seconds(3600))
      _ = try io.keepAlive([], heartbeat: .seconds(3600))
    }
    try await eventually("the end") { reactor == nil }
  }

  // R-FTS-08
  @Test(arguments: backends, [Duration.zero, .microseconds(200)])
  func idleMakesNoWakeups(backend: IOConfiguration.Backend, busyPoll: Duration) async throws {
    let broker = try makeBroker(backend) { $0.busyPoll = busyPoll }
    let io = try broker.makeApp(named: "idle")
    let ends = try pipe()
    // Deadlines of what ended before them, and a heartbeat of a suspension that is over, wake nobody.
    for number in 0..<10 { _ = try? await io.status("/", within: .milliseconds(200 + number)) }
    let events = try (0..<10).map { try io.keepAlive([], heartbeat: .milliseconds(200 + $0)) }
    io.setState(.suspended)
    _ = try await broker.statistics()
    io.setState(.active)
    let reading = Task { try await io.read(ends.read, into: try IOBuffer(count: 1)) }
    try await eventually("the read") { try await broker.statistics().apps[0].inFlight == 1 }
    let before = try await broker.statistics().wakeups
    // Past those; long enough for a poll loop to be seen.
    try await Task.sleep(for: .milliseconds(400))  // sleep is the subject
    let after = try await broker.statistics().wakeups
    #expect(after <= before + 2)  // the question's own
    _ = try ends.write.writeAll("x".utf8)
    #expect(try await reading.value == 1)
    for end in [ends.read, ends.write] { try end.close() }
    _ = events
  }
}

extension Numbers {
  var count: Int { values.count }
}
