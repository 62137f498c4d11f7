import Foundation
import Opportune

/// A server of one request in front, and a log that is written and read behind.
func files() async throws {
  let folder = FilePath(FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path)
  try FileManager.default.createDirectory(atPath: folder.string, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(atPath: folder.string) }

  let scheduler = try Scheduler()
  let ui = try scheduler.makeApp(named: "ui")
  let archive = try scheduler.makeApp(named: "archive", band: .background)
  let broker = try IOBroker()  // one for the program
  let (front, back) = (try broker.makeIO(for: ui), try broker.makeIO(for: archive))

  let archiving = archive.task {
    let log = folder.appending("log")
    try await back.writeFile(log, Array("one\ntwo\nthree\n".utf8))  // whole or not at all
    var count = 0
    for try await line in try back.lines(of: log) where !line.isEmpty { count += 1 }
    return "archive: \(count) lines, \(try await back.readFile(log).count) bytes"
  }

  let listener = try await front.listen(on: .ipv4("127.0.0.1", port: 0))  // 0: any free port
  let serving = ui.task {
    let client = try await listener.accept(within: .seconds(5))
    for try await line in try front.lines(from: client) {
      try await front.send(client, "hello, \(line)\n")
    }
    try await front.close(client)
  }

  let socket = try await front.connect(to: try listener.address(), within: .seconds(5))
  try await front.send(socket, "Ada\n")
  for try await answer in try front.lines(from: socket, within: .seconds(5)) {
    print(answer)
    break
  }
  try await front.close(socket)  // which ends the server's lines
  print(try await archiving.value)
  try await serving.value
  try await listener.close()
  await broker.shutdown()
  try await scheduler.shutdown()
}
