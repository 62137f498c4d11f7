import CIOTestSupport
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Requests that wait for a peer without a time limit, and what they must not delay.
@Suite(.bounded) struct LongWaitTests {
  /// With one place, for background opens as for all else. The second path leads where the kernel has to be
  /// asked.
  // R-DISK-01
  @Test(arguments: backends, [false, true])
  func opensThatWaitTakeNoPlaceOfTheDevice(backend: IOConfiguration.Backend, isAsked: Bool) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) { $0.storage.cap = .fixed(1) }
      let background = try broker.makeApp(named: "background", state: .background)
      let other = try broker.makeApp(named: "other", state: .background)
      let path = try makeFIFO(folder.appending("fifo"))
      let number = try FileDescriptor.open(folder, .readOnly)
      let asked = FilePath("/proc/self/fd/\(number.rawValue)/fifo")
      // Without a reader it waits, and neither fails nor succeeds.
      let opens = [[], .create].map { (options: FileDescriptor.OpenOptions) in
        Task { try await background.open(isAsked ? asked : path, .writeOnly, options: options) }
      }
      try await eventually("the opens") {
        let statistics = try await broker.statistics()
        return statistics.apps[0].inFlight == 2 && statistics.storage.backgroundInFlight == 0
      }
      #expect(try await other.readFile("/proc/self/status", within: .seconds(20)).count > 0)
      let otherEnd = try FileDescriptor.open(path, .readOnly, options: .nonBlocking)
      for open in opens { try await background.close(try await open.value) }
      for end in [otherEnd, number] { try end.close() }
    }
  }

  // R-FTS-07
  @Test(arguments: backends)
  func opensThatWaitHoldUpNoTermination(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let (broker, io) = try makeApp(backend, named: "opens")
      let path = try makeFIFO(folder.appending("fifo"))
      let opening = Task { try await io.open(path, .writeOnly, options: [.create]) }
      try await eventually("the open") { try await broker.statistics().apps[0].inFlight == 1 }
      await io.terminate()
      #expect(await code { _ = try await opening.value } == .terminated)
      // What is opened after all, as soon as there is another end, is closed.
      let otherEnd = try FileDescriptor.open(path, .readOnly, options: .nonBlocking)
      try await eventually("the end of the open") { try await broker.statistics().apps[0].inFlight == 0 }
      var byte: UInt8 = 0
      try await eventually("no writer") { read(otherEnd.rawValue, &byte, 1) == 0 }
      try otherEnd.close()
      await broker.shutdown()
    }
  }

  /// Files of no kind, which somebody else makes readable, are no work for the pool's threads.
  // R-DISK-01
  @Test(arguments: backends)
  func eventDescriptorsTakeNoThread(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend) {
      $0.triesInline = false
      $0.threads = 1
    }
    let waiting = try broker.makeApp(named: "waits", state: .background)
    let other = try broker.makeApp(named: "other")
    let events = (0..<12).map { _ in FileDescriptor(rawValue: io_test_eventfd()) }
    let reads = events.map { event in Task { try await waiting.read(event, into: try IOBuffer(count: 8)) } }
    try await eventually("the reads") { try await broker.statistics().apps[0].inFlight == events.count }
    #expect(try await other.readFile("/proc/self/status", within: .seconds(20)).count > 0)
    var one: UInt64 = 1
    for event in events { #expect(write(event.rawValue, &one, 8) == 8) }
    for read in reads { #expect(try await read.value == 8) }
    for event in events { try event.close() }
    await broker.shutdown()
  }

  /// It answers that it would have to wait; so the broker does.
  @Test(arguments: backends)
  func pipesThatDoNotBlockAreWaitedFor(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "waits")
    let ends = try FileDescriptor.pipe()
    for end in [ends.readEnd, ends.writeEnd] { #expect(fcntl(end.rawValue, F_SETFL, O_NONBLOCK) == 0) }
    let reading = Task {
      try await io.read(ends.readEnd, into: try IOBuffer(count: 300_000), untilFull: true)
    }
    try await eventually("the read") { try await broker.statistics().apps[0].inFlight == 1 }
    try await io.write(ends.writeEnd, from: try IOBuffer(count: 300_000))
    #expect(try await reading.value == 300_000)
    for end in [ends.readEnd, ends.writeEnd] { try await io.close(end) }
  }

  /// Files that know no `RWF_NOWAIT`: a terminal is read and written by whoever polls it.
  @Test(arguments: backends)
  func terminalsAreReadAndWritten(backend: IOConfiguration.Backend) async throws {
    var ends: [Int32] = [-1, -1]
    guard io_test_terminal(&ends) == 0 else { return print("skipped: there is no pseudo-terminal here") }
    let (terminal, user) = (FileDescriptor(rawValue: ends[0]), FileDescriptor(rawValue: ends[1]))
    let broker = try makeBroker(backend) { $0.threads = 1 }
    let io = try broker.makeApp(named: "terminal")
    let buffer = try IOBuffer(count: 8)
    let reads = (0..<12).map { _ in Task { try await io.read(terminal, into: try IOBuffer(count: 1)) } }
    try await eventually("the reads") { try await broker.statistics().apps[0].inFlight == reads.count }
    try await io.write(user, from: try IOBuffer(count: 12), within: .seconds(20))
    for read in reads { #expect(try await read.value == 1) }
    try await io.write(terminal, from: [try IOBuffer(copying: Array("abc".utf8))], within: .seconds(20))
    #expect(try await io.read(user, into: buffer, 0..<3, untilFull: true, within: .seconds(20)) == 3)
    #expect(try buffer.bytes(in: 0..<3) == Array("abc".utf8))
    for end in [terminal, user] { try await io.close(end) }
  }

  /// The kernel answers what it has not got yet, unlike of a pipe.
  @Test(arguments: backends)
  func terminalsThatDoNotBlockAreWaitedFor(backend: IOConfiguration.Backend) async throws {
    var ends: [Int32] = [-1, -1]
    guard io_test_terminal(&ends) == 0 else { return print("skipped: there is no pseudo-terminal here") }
    let (terminal, user) = (FileDescriptor(rawValue: ends[0]), FileDescriptor(rawValue: ends[1]))
    #expect(fcntl(terminal.rawValue, F_SETFL, O_NONBLOCK) == 0)
    let (broker, io) = try makeApp(backend, named: "terminal")
    let reading = Task { try await io.read(terminal, into: try IOBuffer(count: 3), untilFull: true) }
    try await eventually("the read") { try await broker.statistics().apps[0].inFlight == 1 }
    try await io.write(user, from: try IOBuffer(count: 3))
    #expect(try await reading.value == 3)
    for end in [terminal, user] { try await io.close(end) }
  }

  /// The kernel says that it should be tried again, and does not say when.
  @Test(arguments: backends)
  func connectsWaitForAFullBacklog(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let (broker, io) = try makeApp(backend, named: "connects")
      let listener = try await io.listen(on: .unix(folder.appending("socket")), backlog: 1)
      let address = try listener.address()
      var sockets: [FileDescriptor] = []
      for _ in 0..<2 { sockets.append(try await io.connect(to: address)) }
      #expect(
        await code { _ = try await io.connect(to: address, within: .milliseconds(50)) } == .deadlineExceeded)
      let connecting = Task { try await io.connect(to: address) }
      try await eventually("the connect") { try await broker.statistics().apps[0].inFlight == 1 }
      for _ in 0..<3 { sockets.append(try await listener.accept()) }
      sockets.append(try await connecting.value)
      try await io.send(sockets[5], from: try IOBuffer(copying: [7]))
      #expect(try await io.receive(sockets[4], into: try IOBuffer(count: 1), within: .seconds(20)) == 1)
      for socket in sockets { try await io.close(socket) }
      try await listener.close()
      await broker.shutdown()
    }
  }

  /// As many as the cap lets through; with an offset, which a pipe has no use for.
  // R-DISK-01
  @Test(arguments: backends)
  func pipesTakeNoPlaceOfTheDevices(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend) { $0.triesInline = false }
    let waiting = try broker.makeApp(named: "waits", state: .background)
    let other = try broker.makeApp(named: "other", state: .background)
    let ends = try FileDescriptor.pipe()
    for _ in 0..<8 { Task { try? await waiting.read(ends.readEnd, into: try IOBuffer(count: 1), at: 0) } }
    try await eventually("the reads") { try await broker.statistics().background.submitted == 8 }
    #expect(try await other.readFile("/proc/self/status", within: .seconds(20)).count > 0)
    await waiting.terminate()
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }

  /// More waiting opens than the kernel has threads by default, by a background app; of the foreground as
  /// many as may wait.
  // R-DISK-01
  @Test(arguments: backends)
  func backgroundThatWaitsInTheKernelHoldsUpNoForeground(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let (broker, background) = try makeApp(backend, named: "background", state: .background)
      let foreground = try broker.makeApp(named: "foreground")
      let path = try makeFIFO(folder.appending("fifo"))
      let opens = (0..<40).map { _ in Task { try await background.open(path, .readOnly) } }
      let own = (0..<OpenLimiter.limit + 1).map { _ in Task { try await foreground.open(path, .readOnly) } }
      try await eventually("the opens") {
        let apps = try await broker.statistics().apps
        return apps[0].inFlight == OpenLimiter.limit && apps[1].inFlight == OpenLimiter.limit
          && apps[0].background.submitted == 40
      }
      let cancelled = Task { try await background.open(path, .readOnly) }
      try await eventually("one more") { try await broker.statistics().apps[0].background.submitted == 41 }
      cancelled.cancel()
      #expect(await code { _ = try await cancelled.value } == .cancelled)
      // `create` has the kernel open it on a thread of its own from the start.
      let file = try await foreground.open(
        folder.appending("file"), .writeOnly, options: [.create], within: .seconds(20))
      try await foreground.close(file)
      let otherEnd = try FileDescriptor.open(path, .readWrite)
      for open in opens { try await background.close(try await open.value) }
      for open in own { try await foreground.close(try await open.value) }
      try otherEnd.close()
    }
  }

  /// Its thread of the pool may stay where it is for ever; nobody waits for it.
  // R-FTS-07
  @Test(arguments: backends)
  func cancelledOpensHoldUpNobody(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let (broker, io) = try makeApp(backend, named: "opens")
      let path = try makeFIFO(folder.appending("fifo"))
      let opening = Task { try await io.open(path, .readOnly) }
      try await eventually("the open") { try await broker.statistics().apps[0].inFlight == 1 }
      _ = try await io.status("/")  // behind it in the pool's queue: a thread has it
      opening.cancel()
      #expect(await code { _ = try await opening.value } == .cancelled)
      await broker.shutdown()
      let hasEnded = broker.reactor.hasEnded
      #expect(broker.capabilities.usesUring || !hasEnded)
      #expect(await code { _ = try await broker.statistics() } == .unavailable)
      await broker.shutdown()
      #expect(await code { try await io.nop() } != nil)
      // What is opened after all is closed; then the broker's thread ends.
      let otherEnd = try FileDescriptor.open(path, .readWrite)
      try await eventually("the thread's end") { broker.reactor.hasEnded }
      #expect(close(otherEnd.rawValue) == 0)
      // Without a reader this cannot be opened.
      #expect(open(path.string, O_WRONLY | O_NONBLOCK) == -1 && errno == ENXIO)
    }
  }
}
