import Foundation
import Opportune
import TestSupport
import Testing

@testable import OpportuneCommand
@testable import OpportuneHost

/// What `opportune serve` answers.
@Suite(.bounded) struct AppsSiteTests {
  private static let token = String(repeating: "a1", count: 16)
  private let site = AppsSite(token: Self.token, host: "/run/<b>host</b>.sock") {
    .success([
      AppEntry(
        id: "make", pids: [7, 8], state: "background", cgroup: nil, cpuSeconds: 1.5, memoryBytes: 3_000_000,
        memoryBy: nil, keptBy: ["a <script>"], keptSockets: 0, scheduled: 0, notes: [])
    ])
  }

  private func request(_ lines: String...) -> HTTPRequest { HTTPRequest(lines) }

  @Test func requestsAreRead() {
    #expect(request("GET / HTTP/1.1") == HTTPRequest(method: "GET", path: "/", token: nil))
    #expect(
      request("GET /apps.json?x=1&token=abc HTTP/1.1", "Host: x")
        == HTTPRequest(method: "GET", path: "/apps.json", token: "abc"))
    #expect(
      request("HEAD /x HTTP/1.0", "authorization:  bearer  abc ")
        == HTTPRequest(method: "HEAD", path: "/x", token: "abc"))
    #expect(request("GET /? HTTP/1.1", "Authorization: Basic abc").token == nil)
    #expect(request("GET /?token= HTTP/1.1").token == "")
    for bad in ["", "GET", "GET /", "GET / HTTP/2", "GET  / HTTP/1.1", "GET http://x/ HTTP/1.1", "\u{0}"] {
      #expect(request(bad) == .malformed, "\(bad)")
    }
    #expect(HTTPRequest([]) == .malformed)
  }

  @Test(arguments: [nil, "", "a1", String(repeating: "a1", count: 15) + "a2", token + "a"])
  func whoHasNoTokenLearnsNothing(given: String?) {
    for path in ["/", "/apps.json", "/nothing"] {
      let answer = site.answer(to: HTTPRequest(method: "GET", path: path, token: given))
      #expect(answer.status == "401 Unauthorized")
      #expect(!answer.body.contains("make") && !answer.body.contains("host.sock"))
    }
  }

  @Test func theNumbersAreThoseOfTheHost() throws {
    let answer = site.answer(to: request("GET /apps.json?token=\(Self.token) HTTP/1.1"))
    #expect(answer.status == "200 OK" && answer.type == "application/json")
    let object = try JSONSerialization.jsonObject(with: Data(answer.body.utf8)) as? [String: Any]
    let app = try #require((object?["apps"] as? [[String: Any]])?.first)
    #expect(app["id"] as? String == "make" && app["cpu_s"] as? Double == 1.5)
    #expect(object?["host"] as? String == "/run/<b>host</b>.sock")
    #expect((object?["at"] as? Double ?? 0) > 1_700_000_000)
    let text = String(decoding: answer.bytes, as: UTF8.self)
    #expect(
      text.hasPrefix("HTTP/1.1 200 OK\r\n") && text.contains("Content-Length: \(answer.body.utf8.count)\r\n"))
    #expect(text.contains("\r\nCache-Control: no-store\r\n") && text.hasSuffix("\r\n\r\n" + answer.body))
  }

  @Test func thePageRunsNoScriptButItsOwn() throws {
    let first = site.answer(to: request("GET /?token=\(Self.token) HTTP/1.1"))
    #expect(first.status == "200 OK" && first.type.hasPrefix("text/html"))
    #expect(first.body.contains("/run/&lt;b&gt;host&lt;/b&gt;.sock") && !first.body.contains("<b>host"))
    #expect(!first.body.contains(Self.token), "the address alone has it")
    let policy = try #require(first.fields.first { $0.hasPrefix("Content-Security-Policy: ") })
    let nonce = try #require(policy.split(separator: "'nonce-").last?.prefix { $0 != "'" })
    #expect(policy.contains("default-src 'none'") && first.body.contains("<script nonce=\(nonce)>"))
    #expect(site.answer(to: request("GET /?token=\(Self.token) HTTP/1.1")).fields != first.fields)
  }

  @Test func nothingElseIsThere() {
    func answer(_ line: String) -> HTTPAnswer {
      site.answer(to: request(line, "Authorization: Bearer \(Self.token)"))
    }
    #expect(answer("POST /apps.json HTTP/1.1").status == "405 Method Not Allowed")
    #expect(answer("POST /apps.json HTTP/1.1").fields == ["Allow: GET, HEAD"])
    #expect(answer("GET /../etc/passwd HTTP/1.1").status == "404 Not Found")
    let head = answer("HEAD /apps.json HTTP/1.1")
    #expect(head.status == "200 OK" && String(decoding: head.bytes, as: UTF8.self).hasSuffix("\r\n\r\n"))
    #expect(site.answer(to: .malformed).status == "400 Bad Request")
    let alone = AppsSite(token: Self.token, host: "x") { .failure(PushError(.refused("it is away"))) }
    let missing = alone.answer(to: request("GET /apps.json?token=\(Self.token) HTTP/1.1"))
    #expect(missing.status == "503 Service Unavailable" && missing.body.contains("no host answers: "))
    #expect(missing.body.contains("it is away"))
  }

  @Test func tokensDiffer() {
    let tokens = Set((0..<100).map { _ in LocalSite.newToken() })
    #expect(tokens.count == 100 && tokens.allSatisfy { $0.count == 32 && $0.allSatisfy(\.isHexDigit) })
  }
}
