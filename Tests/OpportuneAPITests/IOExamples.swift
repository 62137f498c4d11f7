import Foundation
import Opportune
import TestSupport
import Testing

@Suite(.bounded) struct IOExamples {
  private let scheduler: Scheduler
  private let app: App
  private let folder: FilePath

  init() throws {
    scheduler = try Scheduler()
    app = try scheduler.makeApp(named: "files")
    folder = FilePath(FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path)
    try FileManager.default.createDirectory(atPath: folder.string, withIntermediateDirectories: true)
  }

  @Test func wholeFiles() async throws {
    let (app, folder) = (app, folder)
    // docs: whole files
    let broker = try IOBroker()
    let io: AppIO = try broker.makeIO(for: app)
    try await io.writeFile(folder.appending("notes"), Array("Ada".utf8))
    let bytes = try await io.readFile(folder.appending("notes"), within: .seconds(1))
    // end
    #expect(bytes == Array("Ada".utf8))
    await broker.shutdown()
  }

  @Test func buffers() async throws {
    let broker = try IOBroker()
    let io = try broker.makeIO(for: app)
    let path = folder.appending("buffers")
    // docs: buffers
    let file = try await io.open(path, .readWrite, options: [.create])
    try await io.write(file, "0123456789", at: 0)
    let buffer = try IOBuffer(count: 4)
    let count = try await io.read(file, into: buffer, at: 6)
    let text = String(decoding: try buffer.bytes(in: 0..<count), as: UTF8.self)
    try await io.close(file)
    // end
    #expect(text == "6789")
    await broker.shutdown()
  }

  @Test func chunks() async throws {
    let broker = try IOBroker()
    let io = try broker.makeIO(for: app)
    let path = folder.appending("chunks")
    try await io.writeFile(path, [UInt8](repeating: 1, count: 10_000))
    // docs: chunks
    let status: FileStatus = try await io.status(path)
    let chunks: FileChunks = try io.chunks(of: path, count: 4096)
    var sum = 0
    for try await chunk in chunks { sum += chunk.count }
    // end
    #expect(sum == Int(status.size))
    await broker.shutdown()
  }

  @Test func sockets() async throws {
    let broker = try IOBroker()
    let io = try broker.makeIO(for: app)
    // docs: sockets
    let listener: Listener = try await io.listen(on: SocketAddress.ipv4("127.0.0.1", port: 0))
    async let accepted = listener.accept(within: .seconds(10))
    let client = try await io.connect(to: try listener.address(), within: .seconds(10))
    let peer = try await accepted
    try await io.send(client, "hello")
    let buffer = try IOBuffer(count: 5)
    let count = try await io.receive(peer, into: buffer, untilFull: true)
    // end
    #expect(count == 5)
    await broker.shutdown()
  }

  @Test func errors() async throws {
    let broker = try IOBroker()
    let io = try broker.makeIO(for: app)
    let path = folder.appending("absent")
    var isAbsent = false
    // docs: I/O errors
    do throws(IOError) {
      _ = try await io.readFile(path)
    } catch {
      isAbsent = error.code == .system(.noSuchFileOrDirectory)
    }
    // end
    #expect(isAbsent)
    await broker.shutdown()
  }
}
