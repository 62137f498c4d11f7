import Foundation
import TestSupport
import Testing

@testable import OpportuneHost

/// `opportune serve` beside a real host.
@Suite(.bounded) struct ServeTests {
  /// What comes back until the connection is closed.
  private func ask(_ port: UInt16, _ text: String) throws -> String {
    let client = try connectHere(port)
    defer { close(client) }
    let bytes = Array(text.utf8)
    _ = send(client, bytes, bytes.count, Int32(MSG_NOSIGNAL))
    var answer: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 4096)
    while case let count = recv(client, &piece, piece.count, 0), count > 0 { answer += piece[..<count] }
    return String(decoding: answer, as: UTF8.self)
  }

  @Test func theAddressThatIsPrintedShowsTheApps() async throws {
    let place = try Place()
    var host: HostProgram? = try await HostProgram(place, .signals)
    let slept = try Output()
    let program = try #require(host).run(
      ["sh", "-c", "echo up; exec sleep 600"], options: ["--name", "sleeper"], output: slept)
    _ = try await slept.line("up")
    let output = try Output()
    let serve = try startProgram([command().path, "serve", "--socket", place.path], output)
    defer { kill(serve.processIdentifier, SIGKILL) }
    let url = try #require(
      URL(string: try await output.line("http://127.0.0.1:").trimmingCharacters(in: .newlines)))
    let (port, token) = (UInt16(try #require(url.port)), try #require(url.query()))
    let numbers = try ask(port, "GET /apps.json?\(token) HTTP/1.1\r\nHost: x\r\n\r\n")
    #expect(numbers.hasPrefix("HTTP/1.1 200 OK\r\n") && numbers.contains(#""id":"sleeper""#))
    #expect(try ask(port, "GET /?\(token) HTTP/1.1\r\n\r\n").contains("<table>"))
    #expect(try ask(port, "GET /apps.json HTTP/1.1\r\n\r\n").hasPrefix("HTTP/1.1 401 "))
    #expect(try ask(port, "nonsense\r\n\r\n").hasPrefix("HTTP/1.1 400 "))
    let fields = String(repeating: "X: y\r\n", count: 101)
    #expect(try ask(port, "GET / HTTP/1.1\r\n\(fields)").hasPrefix("HTTP/1.1 400 "))
    // A second one cannot have the port.
    let (status, said) = try told(by: ["serve", "--socket", place.path, "--port", "\(port)"])
    #expect(status == 1 && said.contains("--port \(port): "), "\(said)")
    // It waits for a host that has gone.
    try host?.ask(.terminate, "sleeper")
    program.waitUntilExit()
    host?.end()
    #expect(try ask(port, "GET /apps.json?\(token) HTTP/1.1\r\n\r\n").hasPrefix("HTTP/1.1 503 "))
    host = try await HostProgram(place, .signals)
    #expect(try ask(port, "GET /apps.json?\(token) HTTP/1.1\r\n\r\n").contains(#""apps":[]"#))
    host?.end()
  }
}
