import FoundationEssentials
import OpportuneBase
import OpportuneIO
import OpportuneScheduler
import Synchronization
import SystemPackage

/// A page for the browsers of this machine, and the numbers that it asks for each second. Who has no token
/// learns nothing, and nothing can be changed.
package struct LocalSite: Sendable {
  package let token: String
  /// Who has printed the address, for who comes without the token.
  let printer: String
  /// Where the numbers are, as `/apps.json`.
  let numbers: String

  package init(token: String = LocalSite.newToken(), printer: String, numbers: String) {
    (self.token, self.printer, self.numbers) = (token, printer, numbers)
  }

  /// 128 bits that nobody can guess.
  package static func newToken() -> String {
    var random = SystemRandomNumberGenerator()
    return (0..<2).map { _ in
      let half = String(random.next(), radix: 16)
      return String(repeating: "0", count: 16 - half.count) + half
    }.joined()
  }

  /// What is said to who is given neither the page nor the numbers; `nil`: it is given what it asks for.
  package func refusal(of request: HTTPRequest) -> HTTPAnswer? {
    guard request != .malformed else {
      return HTTPAnswer(status: "400 Bad Request", body: "This is no request of HTTP/1.1.\n")
    }
    guard let given = request.token, isToken(given) else {
      return HTTPAnswer(
        status: "401 Unauthorized", fields: ["WWW-Authenticate: Bearer"],
        body: "The address lacks its token: use the one that \(printer) has printed.\n")
    }
    guard ["GET", "HEAD"].contains(request.method) else {
      return HTTPAnswer(
        status: "405 Method Not Allowed", fields: ["Allow: GET, HEAD"], body: "Nothing can be changed here.\n"
      )
    }
    guard ["/", numbers].contains(request.path) else {
      return HTTPAnswer(status: "404 Not Found", body: "There are / and \(numbers) here.\n")
    }
    return nil
  }

  /// Takes as long for each that is of its length.
  private func isToken(_ given: String) -> Bool {
    let (given, token) = (Array(given.utf8), Array(token.utf8))
    return given.count == token.count && zip(given, token).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }

  /// A document; keys in order and in snake case.
  package static func json(_ document: some Encodable, status: String = "200 OK") -> HTTPAnswer {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    encoder.keyEncodingStrategy = .convertToSnakeCase
    guard let body = try? encoder.encode(document) else {
      return HTTPAnswer(status: "500 Internal Server Error", body: "The answer cannot be encoded.\n")
    }
    return HTTPAnswer(
      status: status, type: "application/json", body: String(decoding: body, as: UTF8.self) + "\n")
  }

  /// A page that runs this script and no other.
  package static func page(
    title: String, heading: String, style: String, script: String, _ parts: [String]
  ) -> HTTPAnswer {
    let nonce = newToken()
    let policy =
      "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-\(nonce)'; connect-src 'self'; "
      + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return HTTPAnswer(
      status: "200 OK", type: "text/html; charset=utf-8", fields: ["Content-Security-Policy: \(policy)"],
      body: HTMLPage.text(
        title: title, heading: heading, style: style, parts + ["<script nonce=\(nonce)>\(script)</script>"]))
  }

  /// Who has not asked within it, or not read, is left.
  private static let patience = Duration.seconds(10)
  /// Connections at a time; more are closed.
  private static let mostClients = 64

  /// Answers on tasks of the app until the listener is closed, or the app's I/O ends.
  package static func serve(
    _ listener: Listener, on app: App, through io: AppIO,
    answer: @escaping @Sendable (HTTPRequest) async -> HTTPAnswer
  ) async throws {
    let clients = Clients()
    for try await client in listener {
      guard clients.add() < mostClients else {
        clients.remove()
        try await io.close(client)
        continue
      }
      app.task {
        defer { clients.remove() }
        if let request = try? await request(from: client, io) {
          try? await io.send(client, answer(request).bytes, within: patience)
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
