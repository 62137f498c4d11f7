import Dispatch
import Glibc

/// Tasks of Swift's default executor: one of high priority for each connection, of background priority for
/// the indexers. Who waits for a task raises it, as the language has it. Plain `pread` and a cache of its
/// own; readiness of sockets comes from Dispatch.
final class SwiftDefaultServer: SearchServer, @unchecked Sendable {
  private let sockets = OpenSockets()
  // Written by start() before any other thread sees the server.
  private var engine: SearchEngine?
  private var background: [Task<Void, Never>] = []
  private var listener: (any DispatchSourceRead)?

  func start(_ setup: ServerSetup) async throws {
    let engine = try await SearchEngine(setup, runtime: TaskRuntime())
    self.engine = engine
    listener = try StreamSocket.accept(at: setup.address, .userInitiated, into: sockets) { [self] in
      serve($0, engine)
    }
    guard setup.hasBackground else { return }
    for index in 0...setup.indexers {
      background.append(
        Task.detached(priority: .background) {
          // A task that never waits gives the pool's thread back between two pieces.
          while !engine.isStopped {
            if index == setup.indexers { try? await engine.scrubOnce() } else { await engine.maintainOnce() }
            await Task.yield()
          }
        })
    }
  }

  func stop() async {
    engine?.stop()
    listener?.cancel()
    sockets.shutDown()
    for task in background { await task.value }
  }

  private func serve(_ socket: Int32, _ engine: SearchEngine) {
    let (arrivals, arrival) = AsyncStream.makeStream(of: [UInt8].self)
    let queue = DispatchQueue(label: "connection", target: .global(qos: .userInitiated))
    let source = DispatchSource.makeReadSource(fileDescriptor: socket, queue: queue)
    source.setEventHandler {
      let bytes = [UInt8](unsafeUninitializedCapacity: 4096) { buffer, count in
        count = max(0, recv(socket, buffer.baseAddress, buffer.count, Int32(MSG_DONTWAIT)))
      }
      if bytes.isEmpty { source.cancel() } else { arrival.yield(bytes) }
    }
    source.setCancelHandler { arrival.finish() }
    source.activate()
    Task.detached(priority: .high) { [sockets] in
      var reader = MessageReader()
      serving: for await bytes in arrivals {
        reader.append(bytes)
        do {
          while let request = try reader.nextRequest() {
            StreamSocket.send(await engine.answer(request).encoded(), to: socket)
          }
        } catch {
          break serving
        }
      }
      source.cancel()
      sockets.close(socket)
    }
  }
}

/// What others may wait for is a task, which the language raises when somebody of a higher priority waits.
private struct TaskRuntime: EngineRuntime {
  func run<Value: Sendable>(
    _ side: Side, announce: (Flight<Value>) -> Void, _ body: @escaping @Sendable () async throws -> Value
  ) async throws -> Value {
    let task = Task { try await body() }
    announce(Flight { try await task.value })
    return try await task.value
  }
}
