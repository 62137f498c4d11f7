import Foundation
import Hummingbird
import Opportune
import OpportuneNIO
import Testing

@Suite(.serialized, .timeLimit(.minutes(1))) struct AppFilesTests {
  @Test func filesAreServedThroughTheBroker() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    let served = folder.appendingPathComponent("served")
    try FileManager.default.createDirectory(at: served, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let contents = (0..<5000).map { "line \($0)\n" }.joined()
    try contents.write(to: served.appendingPathComponent("lines.txt"), atomically: true, encoding: .utf8)
    try "".write(to: served.appendingPathComponent("empty.txt"), atomically: true, encoding: .utf8)
    try "secret".write(to: folder.appendingPathComponent("secret.txt"), atomically: true, encoding: .utf8)

    let scheduler = try makeScheduler()
    let ui = try scheduler.makeApp(named: "ui")
    let broker = try IOBroker()
    // A size that does not divide the file.
    let files = AppFiles(FilePath(served.path), with: try broker.makeIO(for: ui), chunkBytes: 1000)
    let router = Router()
    router.add(middleware: RunOnApps(ui))
    router.add(middleware: FileMiddleware(fileProvider: files))
    let responder = router.buildResponder()

    let whole = try await respond(responder, "/lines.txt")
    #expect(whole.status == .ok && whole.headers[.contentLength] == "\(contents.utf8.count)")
    #expect(try await text(whole) == contents)
    let part = try await respond(responder, "/lines.txt", headers: [.range: "bytes=995-2004"])
    #expect(part.status == .partialContent)
    #expect(try await text(part) == String(contents.dropFirst(995).prefix(1010)))
    #expect(try await text(responder, "/empty.txt").isEmpty)
    for path in ["/missing.txt", "/lines.txt/below", "/../secret.txt", "/%2e%2e/secret.txt"] {
      // Hummingbird itself has another answer to two dots.
      let status = try await respond(responder, path).status
      #expect(status == (path.contains("..") || path.contains("%2e") ? .badRequest : .notFound), "\(path)")
    }
    #expect(files.getFileIdentifier("/../secret.txt") == nil)

    let counted = try await broker.statistics().apps.first { $0.name == "ui" }
    #expect(counted.map { $0.openDescriptors == 0 } == true, "all are closed")

    // Its length is promised; it becomes shorter before it is sent.
    let short = try await respond(responder, "/lines.txt")
    try "short".write(to: served.appendingPathComponent("lines.txt"), atomically: false, encoding: .utf8)
    await #expect(throws: (any Error).self) { try await text(short) }
    await broker.shutdown()
    try await scheduler.shutdown()
  }
}
