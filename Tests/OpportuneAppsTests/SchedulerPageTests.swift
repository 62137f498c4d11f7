import Foundation
import Opportune
import TestSupport
import Testing

/// The page of a running scheduler, as a browser asks for it.
@Suite(.bounded) struct SchedulerPageTests {
  private let scheduler: Scheduler
  private let broker: IOBroker
  private let browser: AppIO

  init() throws {
    scheduler = try Scheduler()
    broker = try IOBroker()
    browser = try broker.makeIO(for: scheduler.makeApp(named: "browser"))
  }

  /// The lines of an answer, head and body.
  private func get(_ path: String, _ page: SchedulerPage, _ fields: String...) async throws -> [String] {
    let port = try #require(URLComponents(string: page.address)?.port)
    let socket = try await browser.connect(to: .ipv4("127.0.0.1", port: UInt16(port)))
    let lines = ["GET \(path) HTTP/1.1", "Host: 127.0.0.1"] + fields + ["", ""]
    try await browser.send(socket, Array(lines.joined(separator: "\r\n").utf8))
    var answer: [String] = []
    for try await line in try browser.lines(from: socket, longest: 1 << 20) { answer.append(line) }
    try await browser.close(socket)
    return answer
  }

  private func numbers(_ page: SchedulerPage) async throws -> [String: Any] {
    let query = try #require(URLComponents(string: page.address)?.query)
    let answer = try await get("/scheduler.json?\(query)", page)
    #expect(answer.first == "HTTP/1.1 200 OK")
    let body = try #require(answer.last)
    return try #require(JSONSerialization.jsonObject(with: Data(body.utf8)) as? [String: Any])
  }

  private func app(_ name: String, _ numbers: [String: Any], in list: String = "apps") -> [String: Any]? {
    (numbers[list] as? [[String: Any]])?.first { $0["name"] as? String == name }
  }

  @Test func theNumbersAreThoseOfTheScheduler() async throws {
    let page = try await SchedulerPage(of: scheduler, through: broker)
    let ui = try scheduler.makeApp(named: "ui <b>")
    let indexer = try scheduler.makeApp(named: "indexer", band: .background)
    for _ in 0..<100 { await ui.task {}.value }
    indexer.suspend()
    let numbers = try await numbers(page)
    let shown = try #require(app("ui <b>", numbers))
    #expect(shown["band"] as? String == "foreground" && shown["is_suspended"] as? Bool == false)
    #expect(shown["jobs"] as? UInt64 == ui.statistics.jobs && ui.statistics.jobs >= 100)
    #expect(shown["demotions"] as? UInt64 == 0)
    let waiting = try #require(shown["waiting"] as? [String: Any])
    let buckets = try #require(waiting["buckets"] as? [[UInt64]])
    #expect(waiting["count"] as? UInt64 == buckets.reduce(0) { $0 + $1[1] } && !buckets.isEmpty)
    #expect((waiting["p50_ns"] as? Int64 ?? 0) > 0)
    let behind = try #require(app("indexer", numbers))
    #expect(behind["band"] as? String == "background" && behind["is_suspended"] as? Bool == true)
    let requests = try #require(app("page", numbers, in: "requests"))
    #expect((requests["open_descriptors"] as? Int ?? 0) >= 2, "the listener and this connection")
    #expect((numbers["pools"] as? [[String: Any]])?.count == 2)
    #expect((numbers["at"] as? Double ?? 0) > 1_700_000_000)
    indexer.resume()
    await page.close()
  }

  @Test func whoHasNoTokenLearnsNothing() async throws {
    let page = try await SchedulerPage(of: scheduler, through: broker)
    #expect(page.address.hasPrefix("http://127.0.0.1:"))
    for path in ["/", "/scheduler.json", "/scheduler.json?token=0"] {
      let answer = try await get(path, page)
      #expect(answer.first == "HTTP/1.1 401 Unauthorized" && !answer.joined().contains("browser"))
      #expect(answer.last?.contains("the one that the program has printed") == true)
    }
    let token = try #require(page.address.split(separator: "=").last)
    let borne = try await get("/", page, "Authorization: Bearer \(token)")
    #expect(borne.first == "HTTP/1.1 200 OK" && borne.contains("<h2>Requests</h2>"))
    #expect(!borne.joined().contains(token))
    let other = try await get("/apps.json?token=\(token)", page)
    #expect(other.first == "HTTP/1.1 404 Not Found")
    await page.close()
  }

  @Test func afterItIsClosedNothingIsLeft() async throws {
    let page = try await SchedulerPage(of: scheduler, through: broker)
    let port = UInt16(try #require(URLComponents(string: page.address)?.port))
    await #expect(throws: IOError.self) {
      try await SchedulerPage(of: scheduler, through: broker, port: port)
    }
    _ = try await numbers(page)
    await page.close()
    await page.close()
    await #expect(throws: IOError.self) { try await browser.connect(to: .ipv4("127.0.0.1", port: port)) }
    try await eventually("the page's apps are gone") {
      await !scheduler.statistics().apps.contains { $0.name == "page" }
    }
    try await SchedulerPage(of: scheduler, through: broker, port: port).close()
  }
}
