import Glibc
import OpportuneBase

/// What a window gave.
struct ServeOutcome: Sendable {
  /// What is measured: behind the warm-up.
  var measured: Range<Nanoseconds>
  /// When nothing more was waited for.
  var end: Nanoseconds
  var samples: [ServeSample]
  var slices: [Slice]
  /// When the device of the index stood still.
  var standstills: [Range<Nanoseconds>] = []
  /// What the server did in the time that is measured.
  var count: EngineCount
  /// The most memory that was resident, in bytes.
  var resident: UInt64
  /// Whether the generator was in a real-time class.
  var isRealTime: Bool
  /// What the server's scheduler said at the end; nil where it has none.
  var standing: SchedulerStanding?
}

/// One contender under one load: starts its server, runs the clients, and ends it.
struct ServeWindow {
  /// Answers that come later than that after the last question are not waited for.
  static let late: Nanoseconds = 10_000_000_000
  private static let startLimit: Nanoseconds = 30_000_000_000

  let plan: ServePlan
  let contender: String
  let questions: ServeQuestions
  let meter: NoiseMeter
  let launch: (ServerSetup) throws -> any RunningServer
  let isInterrupted: @Sendable () -> Bool

  func run(_ setup: ServerSetup) throws -> ServeOutcome {
    let server = try launch(setup)
    defer { server.stop() }
    do { return try measure(server, setup) } catch {
      // Why it is gone says more than the call that noticed it, which may be a moment before.
      throw server.end(within: 1_000_000_000).map(gone) ?? error
    }
  }

  private func gone(_ end: String) -> BenchError {
    BenchError(.workLost, "\(contender) under load '\(plan.load.rawValue)': the server is gone: \(end)")
  }

  private func measure(_ server: any RunningServer, _ setup: ServerSetup) throws -> ServeOutcome {
    let control = try ServeControl(try connect(setup.address, server))
    let generator = try ServeGenerator(plan, questions, address: setup.address)
    let device = try DeviceWatch(folder: setup.folder)
    defer { _ = device.stop() }
    let begin = SystemClock.now() + 20_000_000
    let (thread, isRealTime) = try start(generator, begin)
    let watch = ServerWatch(server.process, meter)
    let counts = Result {
      SystemClock.sleep(until: begin + plan.warmUp)
      let before = try control.statistics()
      watch.sample(until: begin + plan.duration, isInterrupted)
      return (before, try control.statistics())
    }
    let from = begin + plan.warmUp
    let measured = from..<max(from + 1, min(SystemClock.now(), begin + plan.duration))
    thread.join()
    let (before, after) = try counts.get()
    if let end = server.end() { throw gone(end) }
    if let fault = generator.fault { throw BenchError(.wrongAnswer, "\(contender): \(fault)") }
    guard after.count.failures == 0 else {
      throw BenchError(.workLost, "\(contender): \(after.count.failures) pieces of background work failed")
    }
    return ServeOutcome(
      measured: measured, end: SystemClock.now(), samples: generator.samples, slices: watch.slices,
      standstills: device.stop(), count: after.count.since(before.count), resident: watch.resident,
      isRealTime: isRealTime, standing: after.standing)
  }

  private func start(_ generator: ServeGenerator, _ begin: Nanoseconds) throws -> (SystemThread, Bool) {
    let held = Held(generator: generator)
    return try SystemThread.measuring(named: "clients") { [isInterrupted] in
      held.generator.run(from: begin, limit: Self.late, isInterrupted: isInterrupted)
    }
  }

  /// Sendable: used by its thread until that is joined.
  private struct Held: @unchecked Sendable { let generator: ServeGenerator }

  /// The server listens once it has opened its index.
  private func connect(_ address: ServeAddress, _ server: any RunningServer) throws -> Int32 {
    let deadline = SystemClock.now() + Self.startLimit
    while true {
      do {
        return try StreamSocket.connect(to: address)
      } catch {
        if let end = server.end() { throw gone(end) }
        guard SystemClock.now() < deadline else { throw error }
        SystemClock.sleep(until: SystemClock.now() + 2_000_000)
      }
    }
  }
}

/// A connection for the bench's own questions.
final class ServeControl {
  private let socket: Int32

  init(_ socket: Int32) throws {
    self.socket = socket
    // A server that is stuck is an error of the run, not its end.
    var limit = timeval(tv_sec: 60, tv_usec: 0)
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  deinit { close(socket) }

  func statistics() throws -> ServerStatistics {
    guard StreamSocket.send(ServeRequest(id: 0, kind: .statistics).encoded(), to: socket) else {
      throw BenchError.failed("the server takes no questions")
    }
    var reader = MessageReader()
    while StreamSocket.receive(from: socket, into: &reader) != nil {
      guard let response = try reader.nextResponse() else { continue }
      if let told = ServerStatistics(response.counters) { return told }
    }
    throw BenchError.failed("the server does not say what it has done")
  }
}

/// Reads the machine's counters, and the server's memory and CPU time, ten times a second.
final class ServerWatch {
  private let process: pid_t
  private let meter: NoiseMeter
  private let state = WindowState()
  private(set) var slices: [Slice] = []
  private(set) var resident: UInt64 = 0

  init(_ process: pid_t, _ meter: NoiseMeter) {
    self.process = process
    self.meter = meter
  }

  func sample(until end: Nanoseconds, _ isInterrupted: () -> Bool) {
    var last = read()
    while SystemClock.now() < end, !isInterrupted() {
      SystemClock.sleep(until: min(end, last.time + WindowRunner.slice))
      let next = read()
      slices.append(Slice(begin: last, end: next))
      last = next
    }
  }

  /// The server's CPU time counts as this program's: other programs are what is neither.
  private func read() -> UsageReading {
    var reading = meter.read(state)
    if process != getpid() {
      reading.process += cpu()
      reading.resident = pages()
    }
    resident = max(resident, reading.resident)
    return reading
  }

  private func cpu() -> Nanoseconds {
    var clock = clockid_t()
    var time = timespec()
    guard clock_getcpuclockid(process, &clock) == 0, clock_gettime(clock, &time) == 0 else { return 0 }
    return Nanoseconds(time.tv_sec) * 1_000_000_000 + Nanoseconds(time.tv_nsec)
  }

  private func pages() -> UInt64 {
    let fields = TextFile.read("/proc/\(process)/statm", limit: 256)?.split(separator: " ") ?? []
    return (fields.dropFirst().first.flatMap { UInt64($0) } ?? 0)
      * UInt64(max(0, sysconf(Int32(_SC_PAGESIZE))))
  }
}
