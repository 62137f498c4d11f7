import NIOCore
import NIOPosix
import OpportuneBench

/// The search server as a program on SwiftNIO has it, for `opportune bench serve --nio-rival`: event loops
/// for the connections, SwiftNIO's own pool of threads for what blocks, which is how a query reads, and a
/// pool at `SCHED_IDLE` for background. Its argument is how it is to be set up, as JSON; it ends with its
/// input.
@main
enum ServeRival {
  static func main() async throws {
    guard CommandLine.arguments.count == 2 else {
      throw Misuse("usage: ServeRival SETUP; 'opportune bench serve --nio-rival' starts it")
    }
    try await RivalEngine.run(CommandLine.arguments[1], start: serve)
  }

  private static func serve(_ engine: RivalEngine) throws -> @Sendable () throws -> Void {
    let loops = MultiThreadedEventLoopGroup(numberOfThreads: engine.cores)
    let queries = NIOThreadPool.singleton
    let background = NIOThreadPool(numberOfThreads: max(1, engine.backgroundThreads))
    background.start()
    let bootstrap = ServerBootstrap(group: loops)
      .serverChannelOption(.backlog, value: 256)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(Connection(engine, queries))
        }
      }
    let server =
      switch engine.address {
      case .unix(let path): try bootstrap.bind(unixDomainSocketPath: path).wait()
      // What is small it sends at once, as it does by itself.
      case .tcp(let port):
        try bootstrap.serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
          .bind(host: "127.0.0.1", port: Int(port)).wait()
      }
    for index in 0..<engine.backgroundThreads {
      background.submit { state in
        guard state == .active else { return }
        // Where the class is refused the run shows that background did nothing.
        try? engine.runBackground(index)
      }
    }
    return {
      try server.close().wait()
      try loops.syncShutdownGracefully()
      try background.syncShutdownGracefully()
    }
  }

  private struct Misuse: Error, CustomStringConvertible {
    let description: String
    init(_ description: String) { self.description = description }
  }
}

/// One connection: a query at a time, so that answers come in the order of the questions.
private final class Connection: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let engine: RivalEngine
  private let pool: NIOThreadPool
  private var requests = RivalEngine.Requests()
  private var isAnswering = false

  init(_ engine: RivalEngine, _ pool: NIOThreadPool) {
    self.engine = engine
    self.pool = pool
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    requests.append(unwrapInboundIn(data).readableBytesView)
    answerNext(context)
  }

  private func answerNext(_ context: ChannelHandlerContext) {
    guard !isAnswering else { return }
    do {
      guard let request = try requests.next() else { return }
      isAnswering = true
      let (engine, channel) = (engine, context.channel)
      let next = NIOLoopBound((self, context), eventLoop: context.eventLoop)
      pool.submit { state in
        guard state == .active else { return }
        engine.answer(request) { bytes in
          channel.writeAndFlush(ByteBuffer(bytes: bytes), promise: nil)
          channel.eventLoop.execute {
            let (connection, context) = next.value
            connection.isAnswering = false
            connection.answerNext(context)
          }
        }
      }
    } catch {
      // What follows cannot be read either.
      context.close(promise: nil)
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}
