import COpportune
import Foundation
import MetricsTestKit
import OpportuneScheduler
import Synchronization
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Calls on the caller's thread, racing with suspensions and terminations.
@Suite(.bounded, .serialized) struct InlineCallTests {
  /// Holds the first call at once after ``arm()``, between its look at the app's state and the system call.
  private final class Gate: Sendable {
    private let isArmed = Atomic<Bool>(false)
    private let inside = Atomic<Bool>(false)
    private let exit = DispatchSemaphore(value: 0)

    func arm() { isArmed.store(true, ordering: .releasing) }
    func open() { exit.signal() }
    var holdsOne: Bool { inside.load(ordering: .acquiring) }

    func pass() {
      guard isArmed.exchange(false, ordering: .acquiringAndReleasing) else { return }
      inside.store(true, ordering: .releasing)
      exit.wait()
    }
  }

  private func read(_ file: FileDescriptor, _ io: AppIO, count: Int = 4) -> Task<Int, Never> {
    Task {
      await onAThread {
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count, alignment: 16)
        defer { memory.deallocate() }
        return io.readWaiting(file.rawValue, into: memory, at: 0)
      }
    }
  }

  private func open(_ io: AppIO, _ folder: FilePath, filledWith byte: UInt8 = 1) async throws
    -> FileDescriptor
  {
    let path = folder.appending("\(byte)")
    try await io.writeFile(path, [UInt8](repeating: byte, count: 4))
    return try await io.open(path, .readWrite)
  }

  /// What the app's state is looked up with on one thread: how many are inside the app's gate then.
  private final class Looks: Sendable {
    let thread = Atomic<UInt64>(0)
    let all = Mutex<[Int]>([])
    private let io = Mutex<AppIO?>(nil)

    func watch(_ io: AppIO?) { self.io.withLock { $0 = io } }

    func look() {
      guard UInt64(opp_thread_id()) == thread.load(ordering: .relaxed), let io = io.withLock({ $0 }) else {
        return
      }
      let callers = io.entry.inline.gate.callers
      all.withLock { $0.append(callers) }
    }
  }

  // R-FTS-07 R-CPU-01
  /// A thread of the background may be stopped anywhere, so it enters no gate in vain: closes wait there.
  @Test(arguments: backends) func theBackgroundDoesNotEnterTheGate(backend: IOConfiguration.Backend)
    async throws
  {
    try await withFolder { folder in
      let (scheduler, broker, looks) = (try Scheduler(), try makeBroker(backend), Looks())
      let back = try scheduler.makeApp(named: "back", band: .background)
      let io = try broker.makeIO(for: back) {
        looks.look()
        return nil
      }
      let file = try await open(io, folder)
      looks.watch(io)
      let count = await onAThread {
        looks.thread.store(UInt64(opp_thread_id()), ordering: .relaxed)
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 4, alignment: 16)
        defer { memory.deallocate() }
        return io.readWaiting(file.rawValue, into: memory, at: 0)
      }
      looks.watch(nil)
      #expect(count == 4)
      let all = looks.all.withLock { $0 }
      #expect(!all.isEmpty && all.allSatisfy { $0 == 0 })
      await broker.shutdown()
      try await scheduler.shutdown()
    }
  }

  /// A broker whose inline calls stop in the gate, once that is armed.
  private func makeGatedBroker(
    _ backend: IOConfiguration.Backend
  ) throws -> (gate: Gate, broker: IOBroker) {
    let gate = Gate()
    return (gate, try makeBroker(backend) { $0.onInlineCall = { gate.pass() } })
  }

  // R-FTS-07
  @Test(arguments: backends, [false, true])
  func theEndWaitsForAnInlineCall(backend: IOConfiguration.Backend, isOfAll: Bool) async throws {
    try await withFolder { folder in
      let (gate, broker) = try makeGatedBroker(backend)
      let io = try broker.makeApp(named: "ends")
      let other = try broker.makeApp(named: "other")
      let file = try await open(io, folder)
      gate.arm()
      let reading = read(file, io)
      try await eventually("the call") { gate.holdsOne }
      let ending = Task { isOfAll ? await broker.shutdown() : await io.terminate() }
      try await eventually("the end") {
        await code { _ = try await io.status("/") } == .terminated || isOfAll
      }
      if isOfAll {
        try await eventually("the end") { await code { _ = try await other.status("/") } == .unavailable }
      } else {
        #expect(try await broker.statistics().apps[0].openDescriptors == 1)
        #expect(try await other.readFile("/proc/self/status").count > 0)  // nobody else waits
      }
      #expect(fcntl(file.rawValue, F_GETFD) >= 0)
      gate.open()
      #expect(await reading.value == 4)
      await ending.value
      #expect(await read(file, io).value == -Int(ECANCELED))
      guard !isOfAll else { return }
      #expect(try await broker.statistics().apps[0].openDescriptors == 0)
    }
  }

  /// Whoever's it is. What is left of a call goes nowhere: the number may be another file's.
  @Test(arguments: backends, [false, true])
  func aCloseWaitsForAnInlineCall(backend: IOConfiguration.Backend, isPartial: Bool) async throws {
    try await withFolder { folder in
      let (gate, broker) = try makeGatedBroker(backend)
      let io = try broker.makeApp(named: "closes")
      let other = try broker.makeApp(named: "reads")
      let file = try await open(io, folder)
      let another = try await open(other, folder, filledWith: 2)
      gate.arm()
      let reading = read(file, other, count: isPartial ? 8 : 4)
      try await eventually("the call") { gate.holdsOne }
      let closing = Task { try await io.close(file) }
      try await eventually("the close") { await read(file, other).value == -Int(EBADF) }
      #expect(fcntl(file.rawValue, F_GETFD) >= 0)
      // Nobody else waits; and who reads on and on does not hold the close up.
      #expect(await read(another, other).value == 4)
      #expect(try await io.readFile("/proc/self/status").count > 0)
      gate.open()
      #expect(await reading.value == (isPartial ? -Int(ECANCELED) : 4))
      try await closing.value
      #expect(try await broker.statistics().apps[0].openDescriptors == 0)
      #expect(await read(another, other).value == 4)
      try await other.close(another)
      await broker.shutdown()
    }
  }

  // R-FTS-07
  @Test(arguments: backends)
  func theEndOfAnAppWaitsForOthersInlineCalls(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let (gate, broker) = try makeGatedBroker(backend)
      let io = try broker.makeApp(named: "ends")
      let other = try broker.makeApp(named: "reads")
      let file = try await open(io, folder)
      gate.arm()
      let reading = read(file, other)
      try await eventually("the call") { gate.holdsOne }
      let ending = Task { await broker.shutdown() }
      try await eventually("the end") { await code { _ = try await io.status("/") } == .unavailable }
      #expect(fcntl(file.rawValue, F_GETFD) >= 0)
      gate.open()
      #expect(await reading.value == 4)
      await ending.value
    }
  }

  /// The call has begun, and nothing of it has reached the broker when its descriptor is closed.
  @Test(arguments: backends)
  func aCallFromBeforeACloseReachesNoOtherFile(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend)
      let io = try broker.makeApp(named: "closes")
      let file = try await open(io, folder)
      var call = io.call(.OPP_RING_READ, .storage, file)
      try call.use(IOBuffer(count: 4), nil)
      try await io.close(file)
      // The next that the process opens, unless another test is faster.
      let next = try await open(io, folder, filledWith: 2)
      #expect(await code { try await io.perform(call, within: nil) } == .system(.canceled))
      #expect(await read(next, io).value == 4)
      try await io.close(next)
    }
  }

  // R-FTS-06
  @Test(arguments: backends)
  func anInlineCallIsInFlight(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let (gate, broker) = try makeGatedBroker(backend)
      let io = try broker.makeApp(named: "suspended")
      let file = try await open(io, folder)
      gate.arm()
      let reading = read(file, io)
      try await eventually("the call") { gate.holdsOne }
      io.setState(.suspended)
      #expect(try await broker.statistics().apps[0].inFlight == 1)
      gate.open()
      #expect(await reading.value == 4)  // it came before the suspension
      #expect(try await broker.statistics().apps[0].inFlight == 0)
    }
  }

  /// One that finds nothing there never reached the kernel's hands: it is queued until its app is resumed,
  /// and no answer is held.
  // R-FTS-06
  @Test(arguments: backends)
  func anInlineCallThatFindsNothingIsQueued(backend: IOConfiguration.Backend) async throws {
    let (gate, broker) = try makeGatedBroker(backend)
    let io = try broker.makeApp(named: "suspended")
    let ends = try FileDescriptor.pipe()
    gate.arm()
    let reading = Task(executorPreference: AThread()) {
      try await io.read(ends.readEnd, into: IOBuffer(count: 1))
    }
    try await eventually("the call") { gate.holdsOne }
    #expect(try await broker.statistics().apps[0].inFlight == 1)
    io.setState(.suspended)
    gate.open()
    try await eventually("the queue") { try await broker.statistics().storage.foregroundQueued == 1 }
    _ = try ends.writeEnd.writeAll("x".utf8)
    let app = try await broker.statistics().apps[0]
    #expect(app.inFlight == 0 && app.held == 0)
    io.setState(.active)
    #expect(try await reading.value == 1)
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }

  /// Threads that read for as long as they may: once nothing is in flight of a suspended app, no byte goes.
  // R-FTS-06
  @Test(.timeLimit(.minutes(2)), arguments: backends)
  func nothingIsDoneInlineForASuspendedApp(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend) { $0.suspendedSockets = .none }
    let io = try broker.makeApp(named: "reads")
    let (socket, peer) = try descriptorPair()
    func waiting() -> Int {
      var count: Int32 = 0
      return ioctl(socket.rawValue, UInt(FIONREAD), &count) == 0 ? Int(count) : -1
    }
    let readers = (0..<3).map { _ in
      Task {
        let buffer = try IOBuffer(count: 1)
        while try await io.receive(socket, into: buffer) > 0 { await Task.yield() }
      }
    }
    var generator = SplitMix64(seed: 5)
    for round in 0..<200 {
      _ = try peer.writeAll([UInt8](repeating: 1, count: 1000))
      for _ in 0..<Int.random(in: 0..<20, using: &generator) { await Task.yield() }
      io.setState(.suspended)
      try await eventually("the quiet") {
        if waiting() == 0 { _ = try peer.writeAll([1, 1, 1, 1]) }  // for those that wait in the kernel
        return try await broker.statistics().apps[0].inFlight == 0
      }
      let before = waiting()
      for _ in 0..<20 { await Task.yield() }
      #expect(waiting() == before, "round \(round)")
      io.setState(.active)
    }
    await io.terminate()
    for reader in readers { _ = await reader.result }
    for end in [socket, peer] { try end.close() }
  }

  /// Each call is counted once, and each byte, whoever did what of it.
  @Test(arguments: backends)
  func whatIsTriedInlineIsCountedOnce(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let metrics = TestMetrics()
      var reporter = IOMetricsReporter(to: metrics)
      let (broker, io) = try makeApp(backend, named: "counted")
      let file = try await open(io, folder)
      let before = try await broker.statistics()
      reporter.report(before)
      #expect(await read(file, io).value == 4)
      #expect(await read(file, io, count: 8).value == 4)  // that there is no more, the queue finds
      #expect(await read(FileDescriptor(rawValue: 99_999), io).value == -Int(EBADF))
      let after = try await broker.statistics()
      reporter.report(after)
      var added = after.foreground
      added.subtract(before.foreground)
      #expect(added.inline == 1 && added.bytesRead == 8)
      #expect(added.submitted == 2 && added.completed == 1 && added.failed == 1)
      let dimensions = [("app", "counted"), ("class", "foreground")]
      for (label, count) in [("inline", 1), ("bytes_read", 8), ("requests", 2), ("failed", 1)] {
        #expect(
          try metrics.expectCounter("opportune_io_\(label)", dimensions).lastValue == Int64(count), "\(label)"
        )
      }
      try await io.close(file)
    }
  }

  /// The next file of the number is another app's: who reads at once for one that has ended must not see it.
  // R-FTS-07
  @Test(.timeLimit(.minutes(2)), arguments: backends)
  func noInlineCallReachesTheNextFileOfANumber(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let (broker, next) = try makeApp(backend, named: "next")
      try await next.writeFile(folder.appending("2"), [UInt8](repeating: 2, count: 4))
      for round in 0..<100 {
        let io = try broker.makeApp(named: "ends")
        let file = try await open(io, folder)
        let reading = Task {
          await onAThread {
            let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 4, alignment: 16)
            defer { memory.deallocate() }
            var answer = 0
            repeat {
              answer = io.readWaiting(file.rawValue, into: memory, at: 0)
            } while answer == 4 && memory[0] == 1
            return answer
          }
        }
        try await eventually("a read") { try await broker.statistics().apps.last?.foreground.inline ?? 0 > 0 }
        for _ in 0..<round % 20 { await Task.yield() }
        await io.terminate()
        let others = try (0..<4).map { _ in try FileDescriptor.open(folder.appending("2"), .readOnly) }
        #expect(await reading.value == -Int(ECANCELED), "round \(round)")
        for other in others { try other.close() }
      }
    }
  }

  /// Where the ring has no truncation.
  // R-FTS-06, R-FTS-07
  @Test func aSuspendedAppTruncatesNothing() async throws {
    try await withFolder { folder in
      let broker = try makeBroker(.automatic) { $0.lacksTruncate = true }
      let io = try broker.makeApp(named: "truncates")
      let file = try await open(io, folder)
      func size() throws -> Int64 {
        let other = try FileDescriptor.open(folder.appending("1"), .readOnly)
        return try other.closeAfter { try other.seek(offset: 0, from: .end) }
      }
      try await io.truncate(file, to: 3)
      #expect(try size() == 3)
      #expect(
        await code { try await io.truncate(FileDescriptor(rawValue: 99_999), to: 3) }
          == .system(.badFileDescriptor))
      io.setState(.suspended)
      let truncating = Task { try await io.truncate(file, to: 2) }
      try await eventually("the call") { try await broker.statistics().storage.foregroundQueued == 1 }
      #expect(try size() == 3)
      io.setState(.background)
      try await truncating.value
      #expect(try size() == 2)
      await io.terminate()
      #expect(await code { try await io.truncate(file, to: 1) } == .terminated)
      #expect(try size() == 2)
    }
  }
}

/// A thread that a test may block, for each job.
private final class AThread: TaskExecutor {
  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    DispatchQueue.global().async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
  }
}
