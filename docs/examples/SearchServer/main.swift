import Foundation
import Opportune

let folder = CommandLine.arguments.dropFirst().first ?? "/usr/share/doc"
let scheduler = try Scheduler()
let ui = try scheduler.makeApp(named: "ui")
let indexer = try scheduler.makeApp(named: "indexer", band: .background)
let broker = try IOBroker()
let (sockets, files) = (try broker.makeIO(for: ui), try broker.makeIO(for: indexer))
let index = try OpportuneLock([String: Int](), in: scheduler)

indexer.task {  // every core and the whole disk, as long as nobody asks
  let names = FileManager.default.enumerator(atPath: folder)
  while let name = names?.nextObject() as? String {
    guard let bytes = try? await files.readFile(FilePath("\(folder)/\(name)")) else { continue }
    let words = Set(String(decoding: bytes, as: UTF8.self).lowercased().split { !$0.isLetter })
    try await index.withLock { index in for word in words { index[String(word), default: 0] += 1 } }
  }
}

for try await client in try await sockets.listen(on: .ipv4("127.0.0.1", port: 4040)) {
  ui.task {  // starts at once all the same, however many others compute
    do {
      for try await word in try sockets.lines(from: client) {
        let count = try await index.withLock { $0[word.lowercased()] ?? 0 }
        try await sockets.send(client, "\(count) files\n")
      }
    } catch { print("a client: \(error)") }
    try await sockets.close(client)
  }
}
