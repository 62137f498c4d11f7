import Glibc

/// The search engine for a server that is a program of its own, since it links what this one does not
/// (`--nio-rival`). What it is asked and what it answers are bytes; who asks waits.
package final class RivalEngine: Sendable {
  private let engine: SearchEngine
  /// Where clients connect to.
  package let address: ServeAddress
  /// CPUs that the process may use.
  package let cores: Int
  /// Threads of background that are wanted; 0 under an idle load.
  package let backgroundThreads: Int

  private init(_ setup: ServerSetup) async throws {
    engine = try await SearchEngine(setup)
    address = setup.address
    cores = setup.cores
    backgroundThreads = setup.hasBackground ? setup.indexers + 1 : 0
  }

  /// Serves until the program's input ends.
  ///
  /// - Parameters:
  ///   - text: the program's one argument, a ``ServerSetup`` as JSON.
  ///   - start: begins to serve, and returns what ends that.
  package static func run(
    _ text: String, start: (RivalEngine) throws -> @Sendable () throws -> Void
  ) async throws {
    let engine = try await RivalEngine(try ServeChild.setup(text))
    let stop = try start(engine)
    await ServeChild.waitForEndOfInput()
    engine.engine.stop()
    try stop()
  }

  /// Indexes and merges on the calling thread, or checks if it is the last of ``backgroundThreads``, in
  /// `SCHED_IDLE`, until the program is to end.
  package func runBackground(_ index: Int) throws {
    let refusal = KernelClass.idle.applyToCaller()
    guard refusal == 0 else { throw BenchError.failed("the class of a thread of background", refusal) }
    ThreadExecutor.run { [self] in
      if index == backgroundThreads - 1 { await engine.scrub() } else { await engine.maintain() }
    }
  }

  /// Answers on the calling thread, which blocks until the answer is sent.
  package func answer(_ request: Request, send: @escaping @Sendable ([UInt8]) -> Void) {
    ThreadExecutor.run { [engine] in send(await engine.answer(request.value).encoded()) }
  }

  package struct Request: Sendable {
    fileprivate let value: ServeRequest
  }

  /// The requests of one connection, of the bytes that came.
  package struct Requests {
    private var reader = MessageReader()

    package init() {}

    package mutating func append(_ bytes: some Collection<UInt8>) { reader.append(bytes) }

    /// The next; nil where its end has not come yet.
    ///
    /// - Throws: where what came is malformed: what follows cannot be read either.
    package mutating func next() throws -> Request? { try reader.nextRequest().map(Request.init) }
  }
}
