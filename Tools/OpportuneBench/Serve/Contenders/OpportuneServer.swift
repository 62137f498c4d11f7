import Opportune
import SystemPackage

/// Opportune as its README shows it: a foreground app with a task for each connection, a background app for
/// the indexers, files and sockets through the I/O broker, the block cache in purgeable memory.
final class OpportuneServer: SearchServer, @unchecked Sendable {
  /// What is turned off, so that everyone sees what it brings.
  enum Lack {
    case nothing, memoryBroker, ioBroker, donation, ioDonation, receivesOnWorkers
  }

  private struct Running: Sendable {
    let scheduler: Scheduler
    let broker: IOBroker
    let listener: Listener
    let engine: SearchEngine
  }

  private let lack: Lack
  private let foregroundClass: ForegroundClass
  private let target: AppTarget?
  private let backgroundLevel: Int?
  // Written by start() before any other thread sees the server.
  private var running: Running?

  init(
    lacks lack: Lack = .nothing, foregroundClass: ForegroundClass = .normal, target: AppTarget? = nil,
    backgroundLevel: Int? = nil
  ) {
    self.lack = lack
    self.foregroundClass = foregroundClass
    self.target = target
    self.backgroundLevel = backgroundLevel
  }

  func start(_ setup: ServerSetup) async throws {
    var settings = SchedulerConfiguration()
    settings.foregroundClass = foregroundClass
    let scheduler = try Scheduler(configuration: settings)
    let queries = try scheduler.makeApp(named: "queries", band: .foreground)
    try queries.target(target)
    let indexing = try scheduler.makeApp(named: "indexing", band: .background)
    var configuration = IOConfiguration()
    configuration.followsDonations = lack != .ioDonation
    configuration.receivesOnWorkers = lack != .receivesOnWorkers
    let broker = try IOBroker(configuration: configuration)
    let foreground = try broker.makeIO(for: queries)
    let background = try broker.makeIO(for: indexing)
    let disk: any Disk =
      lack == .ioBroker
      ? PlainDisk() : BrokeredDisk(foreground: foreground, background: background, app: indexing)
    let cache: (any BlockMemory)? =
      lack == .memoryBroker
      ? nil : try PurgeableBlockMemory(MemoryBroker().makeMemory(named: "blocks"), bytes: setup.cacheBytes)
    let runtime: any EngineRuntime =
      lack == .donation ? PlainRuntime() : AppRuntime(background: indexing)
    let engine = try await queries.task {
      try await SearchEngine(
        setup, disk: disk, runtime: runtime, cache: cache,
        popularity: StrandPopularity(try queries.makeStrand(named: "popularity")),
        standing: { [self] in standing(await scheduler.statistics()) })
    }.value
    let listener = try await foreground.listen(on: SocketAddress(setup.address))
    queries.task {
      for try await connection in listener {
        queries.task { try await Self.serve(connection, foreground, engine, in: queries) }
      }
    }
    running = Running(scheduler: scheduler, broker: broker, listener: listener, engine: engine)
    if let backgroundLevel { scheduler.holdBackground(at: backgroundLevel) }
    guard setup.hasBackground else { return }
    for index in 0...setup.indexers {
      indexing.task {
        if index == setup.indexers { await engine.scrub() } else { await engine.maintain() }
      }
    }
  }

  func stop() async {
    guard let running else { return }
    running.engine.stop()
    try? await running.listener.close()
    await running.broker.shutdown()
    try? await running.scheduler.shutdown(within: .seconds(10))
  }

  private func standing(_ statistics: SchedulerStatistics) -> SchedulerStanding {
    let access = statistics.realTimeForeground?.access
    guard target != nil || backgroundLevel != nil else { return SchedulerStanding(realTime: access) }
    let share = statistics.backgroundShare
    return SchedulerStanding(
      share: SchedulerStanding.Share(
        workers: UInt64(share.workers), eighths: UInt64((share.device * 8).rounded()), cuts: share.cuts,
        raises: share.raises), realTime: access)
  }

  private static func serve(
    _ socket: FileDescriptor, _ io: AppIO, _ engine: SearchEngine, in app: App
  ) async throws {
    let buffer = try IOBuffer(count: 4096)
    var reader = MessageReader()
    while true {
      let count = try await io.receive(socket, into: buffer)
      // What is malformed ends its connection, as what follows cannot be read.
      guard count > 0 else { return try await io.close(socket) }
      let read = app.clock.now
      reader.append(try buffer.bytes(in: 0..<count))
      do {
        while let request = try reader.nextRequest() {
          let answer = await Self.answer(request, readAt: read, engine, in: app)
          try await io.send(socket, from: try IOBuffer(copying: answer))
        }
      } catch let error as EngineError where error.code == .malformed {
        return try await io.close(socket)
      }
    }
  }

  /// Only what the target is about counts for it: what takes long by itself is late, whatever background
  /// does. It counts from when it was read; the kernel does not say when it came to the socket.
  private static func answer(
    _ request: ServeRequest, readAt read: AppClock.Instant, _ engine: SearchEngine, in app: App
  ) async -> [UInt8] {
    guard request.kind.countsForTarget else { return await engine.answer(request).encoded() }
    return await app.request(since: read) { await engine.answer(request).encoded() }
  }
}

extension ServeRequest.Kind {
  /// Whether it is told to a target: a word alone is looked up in some 100 µs.
  var countsForTarget: Bool { self == .short }
}

/// What the background does and others may wait for is a task of its app: who waits in the foreground raises
/// it.
private struct AppRuntime: EngineRuntime {
  let background: App

  func run<Value: Sendable>(
    _ side: Side, announce: (Flight<Value>) -> Void, _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    guard side == .background else {
      return try await PlainRuntime().run(side, announce: announce, body)
    }
    let task = background.task { try await body() }
    announce(Flight { try await task.value })
    return try await task.value
  }
}

/// What is popular as an actor on a strand of the foreground: there background's messages run too, so that no
/// query waits for a thread that gets no CPU. (docs/sharing.md)
private actor StrandPopularity: Popularity {
  private let strand: Strand
  private var terms = PopularTerms()

  init(_ strand: Strand) { self.strand = strand }
  nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }

  func note(_ term: [UInt8]) { terms.note(term) }
  func age(_ count: Int) -> [[UInt8]] { terms.age(count) }
}

extension SocketAddress {
  fileprivate init(_ address: ServeAddress) {
    self =
      switch address {
      case .unix(let path): .unix(path)
      case .tcp(let port): .ipv4("127.0.0.1", port: port)
      }
  }
}
