import Foundation
import Glibc
import NIOCore
import NIOPosix

/// SwiftNIO's search server, for `opportune bench serve --nio-rival`: event loops for the sockets, a thread
/// pool for queries, another one for the indexers. Its one argument is what the bench starts a server with;
/// it serves until its input ends. The engine is the bench's, compiled once more from its own sources.
@main
enum ServeRival {
  private final class Connection: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    private let engine: SearchEngine
    private let pool: NIOThreadPool
    private var reader = MessageReader()

    init(_ engine: SearchEngine, _ pool: NIOThreadPool) {
      self.engine = engine
      self.pool = pool
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      reader.append(unwrapInboundIn(data).readableBytesView)
      let channel = context.channel
      do {
        while let request = try reader.nextRequest() {
          pool.submit { [engine] state in
            guard state == .active else { return }
            ThreadExecutor.run {
              let answer = await engine.answer(request).encoded()
              channel.writeAndFlush(ByteBuffer(bytes: answer), promise: nil)
            }
          }
        }
      } catch {
        // What follows cannot be read.
        context.close(promise: nil)
      }
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
  }

  static func main() async throws {
    guard let text = CommandLine.arguments.dropFirst().first else {
      throw EngineError(.malformed, "no setup: `opportune bench serve --nio-rival` gives one")
    }
    let setup = try JSONDecoder().decode(ServerSetup.self, from: Data(text.utf8))
    let engine = try await SearchEngine(setup)
    let group = MultiThreadedEventLoopGroup(numberOfThreads: setup.cores)
    let queries = NIOThreadPool(numberOfThreads: setup.cores)
    let background = NIOThreadPool(numberOfThreads: setup.indexers + 1)
    queries.start()
    background.start()
    let server = try await ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 256)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(Connection(engine, queries))
        }
      }
      .bind(unixDomainSocketPath: setup.socket).get()
    if setup.hasBackground {
      for index in 0...setup.indexers {
        background.submit { state in
          guard state == .active else { return }
          ThreadExecutor.run {
            if index == setup.indexers { await engine.scrub() } else { await engine.maintain() }
          }
        }
      }
    }
    await withCheckedContinuation { ended in
      Thread.detachNewThread {
        while readLine() != nil {}
        ended.resume()
      }
    }
    engine.stop()
    try await background.shutdownGracefully()
    try await server.close()
    try await queries.shutdownGracefully()
    try await group.shutdownGracefully()
  }
}
