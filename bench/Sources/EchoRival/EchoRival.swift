import Glibc
import NIOCore
import NIOPosix

/// SwiftNIO's echo server, for `opportune bench io --echo-rival`: prints its port, and serves until its input
/// ends.
@main
enum EchoRival {
  private final class Echo: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    func channelRead(context: ChannelHandlerContext, data: NIOAny) { context.write(data, promise: nil) }
    func channelReadComplete(context: ChannelHandlerContext) { context.flush() }
    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
  }

  static func main() throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: System.coreCount)
    let server = try ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 256)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(Echo()) }
      }
      .bind(host: "127.0.0.1", port: 0).wait()
    print(server.localAddress?.port ?? 0)
    fflush(nil)
    while readLine() != nil {}
    try server.close().wait()
    try group.syncShutdownGracefully()
  }
}
