import COpportuneBench
import Glibc

/// A thread per connection, which reads, answers and writes, over indexers that the kernel runs when nobody
/// else wants the CPU: what people do today.
///
/// Tuned by hand it is told which requests are heavy and answers them in a pool of a lower nice value, and
/// its indexers are in the idle class of the block layer as well.
final class ThreadServer: SearchServer, @unchecked Sendable {
  private static let heavyNice: Int32 = 10

  private let isTuned: Bool
  private let sockets = OpenSockets()
  // Written by start() before any other thread sees the server.
  private var engine: SearchEngine?
  private var heavy: JobQueue?
  private var threads: [SystemThread] = []

  init(isTuned: Bool) { self.isTuned = isTuned }

  func start(_ setup: ServerSetup) async throws {
    let engine = try await SearchEngine(setup)
    self.engine = engine
    let listening = try StreamSocket.listen(at: setup.address)
    _ = sockets.add(listening)
    if isTuned {
      let queue = JobQueue()
      heavy = queue
      for index in 0..<setup.cores {
        threads.append(
          try SystemThread(named: "heavy-\(index)") {
            setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, Self.heavyNice)
            while let job = queue.pop() { job() }
          })
      }
    }
    threads.append(
      try SystemThread(named: "accept") { [self] in
        while true {
          let socket = accept(listening, nil, nil)
          if socket < 0, errno == EINTR || errno == ECONNABORTED { continue }
          guard socket >= 0, sockets.add(socket) else { break }
          if SystemThread.launch(named: "connection", { self.serve(socket, engine) }) != 0 {
            sockets.close(socket)
          }
        }
        sockets.close(listening)
      })
    guard setup.hasBackground else { return }
    for index in 0...setup.indexers {
      threads.append(
        try SystemThread(named: "indexer-\(index)", kernelClass: .idle) { [isTuned] in
          if isTuned { _ = opp_bench_idle_io() }
          ThreadExecutor.run {
            if index == setup.indexers { await engine.scrub() } else { await engine.maintain() }
          }
        })
    }
  }

  func stop() async {
    engine?.stop()
    sockets.shutDown()
    heavy?.close()
    for thread in threads { thread.join() }
  }

  private func serve(_ socket: Int32, _ engine: SearchEngine) {
    ThreadExecutor.run { [self] in
      var reader = MessageReader()
      while StreamSocket.receive(from: socket, into: &reader) != nil {
        // What is malformed ends its connection, as what follows cannot be read.
        guard (try? await answer(&reader, socket, engine)) != nil else { break }
      }
    }
    sockets.close(socket)
  }

  private func answer(_ reader: inout MessageReader, _ socket: Int32, _ engine: SearchEngine) async throws {
    while let request = try reader.nextRequest() {
      if request.kind == .heavy, let heavy {
        // Its thread waits meanwhile: a client sees its answers in order.
        let answered = Gate()
        let isTaken = heavy.push {
          ThreadExecutor.run { StreamSocket.send(await engine.answer(request).encoded(), to: socket) }
          answered.open()
        }
        if isTaken { answered.wait() }
      } else {
        StreamSocket.send(await engine.answer(request).encoded(), to: socket)
      }
    }
  }
}
