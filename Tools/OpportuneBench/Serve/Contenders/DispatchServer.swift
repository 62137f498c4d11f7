import Dispatch
import Glibc

/// Queues of Dispatch: a serial one for each connection over the user-interactive global queue, indexers on
/// the background one; plain `pread` and a cache of its own.
final class DispatchServer: SearchServer, @unchecked Sendable {
  private let sockets = OpenSockets()
  private let background = DispatchGroup()
  // Written by start() before any other thread sees the server.
  private var engine: SearchEngine?
  private var listener: (any DispatchSourceRead)?

  func start(_ setup: ServerSetup) async throws {
    let engine = try await SearchEngine(setup)
    self.engine = engine
    listener = try StreamSocket.accept(at: setup.address, .userInteractive, into: sockets) { [self] in
      serve($0, engine)
    }
    guard setup.hasBackground else { return }
    for index in 0...setup.indexers { maintain(engine, isScrubber: index == setup.indexers) }
  }

  func stop() async {
    engine?.stop()
    listener?.cancel()
    sockets.shutDown()
    await withCheckedContinuation { done in
      background.notify(queue: .global()) { done.resume() }
    }
  }

  /// One piece after the other, each a block of its own, as a program would have it.
  private func maintain(_ engine: SearchEngine, isScrubber: Bool) {
    DispatchQueue.global(qos: .background).async(group: background) { [self] in
      ThreadExecutor.run {
        if isScrubber { try? await engine.scrubOnce() } else { await engine.maintainOnce() }
      }
      if !engine.isStopped { maintain(engine, isScrubber: isScrubber) }
    }
  }

  private func serve(_ socket: Int32, _ engine: SearchEngine) {
    let queue = DispatchQueue(label: "connection", target: .global(qos: .userInteractive))
    let source = DispatchSource.makeReadSource(fileDescriptor: socket, queue: queue)
    let connection = Connection()
    source.setEventHandler {
      guard StreamSocket.receive(from: socket, into: &connection.reader) != nil else {
        return source.cancel()
      }
      do {
        while let request = try connection.reader.nextRequest() {
          ThreadExecutor.run { StreamSocket.send(await engine.answer(request).encoded(), to: socket) }
        }
      } catch {
        source.cancel()
      }
    }
    source.setCancelHandler { [sockets] in sockets.close(socket) }
    source.activate()
  }

  /// Sendable: used on its connection's serial queue alone.
  private final class Connection: @unchecked Sendable {
    var reader = MessageReader()
  }
}
