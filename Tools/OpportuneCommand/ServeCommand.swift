import ArgumentParser
import Foundation
import Opportune
import OpportuneBase
import OpportuneHost
import Synchronization

struct ServeCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "serve", abstract: "Shows the apps of the host in a browser, live.",
    discussion: """
      Prints an address. Its page is served to this machine alone (127.0.0.1), to who has the token that the address \
      ends in, and changes nothing. The numbers behind it are at /apps.json, with the token as well, in the address or \
      as 'Authorization: Bearer TOKEN'. Runs until it is ended; a host that goes, or is not there yet, is waited for.

      Example: opportune serve --port 8080
      """)

  @OptionGroup var socket: HostSocketOption
  @Option(help: "The port; 0: one that is free.") var port: UInt16 = 0

  /// Who has not asked within it, or not read, is left.
  private static let patience = Duration.seconds(10)
  /// Connections at a time; more are closed.
  private static let mostClients = 64

  func run() async throws {
    let path = try socket.path()
    let scheduler = try Scheduler()
    let app = try scheduler.makeApp(named: "pages")
    let io = try IOBroker().makeIO(for: app)
    let listener: Listener
    do { listener = try await io.listen(on: .ipv4("127.0.0.1", port: port)) } catch {
      throw Failure("--port \(port): \(error.message)")
    }
    guard case .ipv4(_, let port) = try listener.address() else { throw Failure("the port is not known") }
    let site = AppsSite(token: AppsSite.newToken(), host: path) {
      do throws(PushError) {
        return .success(try HostRequest(.apps).send(to: path, within: .seconds(5)).apps ?? [])
      } catch {
        return .failure(error)
      }
    }
    try StandardOutput.write("http://127.0.0.1:\(port)/?token=\(site.token)\n")
    let clients = Clients()
    for try await client in listener {
      guard clients.add() < Self.mostClients else {
        clients.remove()
        try await io.close(client)
        continue
      }
      app.task {
        defer { clients.remove() }
        if let request = try? await Self.request(from: client, io) {
          try? await io.send(client, site.answer(to: request).bytes, within: Self.patience)
        }
        try? await io.close(client)
      }
    }
  }

  /// What a client asks; `nil`: it has ended before.
  private static func request(from client: FileDescriptor, _ io: AppIO) async throws -> HTTPRequest? {
    var lines: [String] = []
    do {
      for try await line in try io.lines(from: client, longest: HTTPRequest.longestLine, within: patience) {
        if line.isEmpty { return HTTPRequest(lines) }
        lines.append(line)
        if lines.count > HTTPRequest.mostLines { return .malformed }
      }
    } catch {
      if error.code == .lineTooLong { return .malformed }
      throw error
    }
    return nil
  }

  private final class Clients: Sendable {
    private let count = Mutex(0)

    /// - Returns: how many there were.
    func add() -> Int {
      count.withLock {
        $0 += 1
        return $0 - 1
      }
    }

    func remove() { count.withLock { $0 -= 1 } }
  }
}
