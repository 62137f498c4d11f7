import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct FilesTests {
  // R-CARD-04
  @Test(arguments: backends)
  func readsAndWritesFiles(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      let path = folder.appending("a")
      let file = try await io.open(path, .readWrite, options: [.create])
      let text = try IOBuffer(copying: Array("hello, broker".utf8))
      #expect(try await io.write(file, from: text, at: 0) == 13)
      #expect(try await io.write(file, from: text, 0..<5, at: 13) == 5)
      try await io.synchronize(file)
      try await io.synchronize(file, dataOnly: true)
      let back = try IOBuffer(count: 64)
      #expect(try await io.read(file, into: back, at: 0) == 18)
      #expect(try back.bytes(in: 0..<18) == Array("hello, brokerhello".utf8))
      #expect(try await io.read(file, into: back, 10..<14, at: 7) == 4)
      #expect(try back.bytes(in: 10..<14) == Array("brok".utf8))
      #expect(try await io.read(file, into: back, at: 18) == 0)
      let parts = [try IOBuffer(count: 4), try IOBuffer(count: 100)]
      #expect(try await io.read(file, into: parts, at: 0) == 18)
      #expect(try parts[1].bytes(in: 0..<3) == Array("o, ".utf8))
      let twin = try IOBuffer(copying: Array("hello, broker".utf8))
      #expect(try await io.write(file, from: [text, twin], at: 0) == 26)
      try await io.allocate(file, count: 10_000)
      #expect(try await io.status(file).size == 10_000)
      try await io.truncate(file, to: 26)
      #expect(try await io.status(path).size == 26)
      #expect(try await io.status(path).isRegularFile)
      #expect(try await io.status(folder).isFolder)
      try await io.rename(path, to: folder.appending("b"))
      #expect(await code { _ = try await io.status(path) } == .system(.noSuchFileOrDirectory))
      try await io.close(file)
      let nobodys = FileDescriptor(rawValue: 99_999)  // the closed one's number may be another test's by now
      #expect(await code { _ = try await io.read(nobodys, into: back, at: 0) } == .system(.badFileDescriptor))
      try await io.remove(folder.appending("b"))
      #expect(await code { try await io.remove(folder.appending("b")) } == .system(.noSuchFileOrDirectory))
    }
  }

  @Test(arguments: backends)
  func readsAtTheDescriptorsOwnPosition(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      let file = try await io.open(folder.appending("a"), .readWrite, options: [.create])
      let text = try IOBuffer(copying: Array("abcdef".utf8))
      try await io.write(file, from: text)
      try await io.write(file, from: text)
      #expect(try await io.readFile(folder.appending("a")) == Array("abcdefabcdef".utf8))
      try await io.close(file)
    }
  }

  @Test(arguments: backends)
  func readsDirectlyFromTheDevice(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      let path = folder.appending("direct")
      try await io.writeFile(path, (0..<65_536).map { UInt8(truncatingIfNeeded: $0 / 256) })
      let file: FileDescriptor
      do {
        file = try await io.open(path, .readOnly, options: .direct)
      } catch let error as IOError where error.code == .system(.invalidArgument) {
        return print("skipped: the temporary folder's file system knows no O_DIRECT")
      }
      let buffer = try IOBuffer(count: 8192)
      for page in 0..<8 {
        #expect(try await io.read(file, into: buffer, at: Int64(page * 8192)) == 8192)
        #expect(try buffer.bytes(in: 0..<1) == [UInt8(page * 32)])
      }
      #expect(try await io.broker.statistics().foreground.inDevice.count >= 8)
      try await io.close(file)
    }
  }

  @Test(arguments: backends)
  func wholeFilesAreReplacedInOneStep(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files", state: .background)
      let path = folder.appending("whole")
      let large = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      try await io.writeFile(path, large)
      #expect(try await io.readFile(path) == large)
      try await io.writeFile(path, [])
      #expect(try await io.readFile(path) == [])
      try await io.writeFile(path, Array("x".utf8), isDurable: false)
      #expect(try await io.readFile(path) == Array("x".utf8))
      #expect(await code { _ = try await io.readFile("/proc/self/status", upTo: 100) } == .configuration)
      #expect(try await io.readFile("/proc/self/status").count > 100)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.string) == ["whole"])
    }
  }

  /// Its size is looked at first: nothing is read of it.
  @Test(arguments: backends)
  func filesAboveTheLimitAreRefused(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "files")
    let path = FilePath("/dev/shm/opp-io-\(UUID().uuidString)")
    guard
      let file = try? FileDescriptor.open(path, .writeOnly, options: [.create], permissions: .ownerReadWrite),
      ftruncate(file.rawValue, off_t.max) == 0
    else { return print("skipped: /dev/shm takes no file of 2^63 - 1 bytes") }
    defer { unlink(path.string) }
    #expect(await code { _ = try await io.readFile(path) } == .configuration)
    #expect(try await io.broker.statistics().foreground.bytesRead == 0)
    try file.close()
  }

  @Test(arguments: backends)
  func emptyBuffersMoveNothing(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "empty")
      let empty = try IOBuffer(copying: [])
      #expect(empty.count == 0)
      #expect(try empty.bytes() == [])
      #expect(try empty.withBytes { $0.count } == 0)
      let file = try await io.open(folder.appending("empty"), .readWrite, options: [.create])
      #expect(try await io.write(file, from: empty, at: 0) == 0)
      #expect(try await io.write(file, from: [empty]) == 0)
      #expect(try await io.status(file).size == 0)
      let (server, client) = try await connectedPair(io)
      try await io.send(client, from: empty)
      try await io.send(client, from: try IOBuffer(copying: [9]))
      let buffer = try IOBuffer(count: 8)
      #expect(try await io.receive(server, into: buffer) == 1)
      for descriptor in [file, server, client] { try await io.close(descriptor) }
    }
  }

  @Test(arguments: backends)
  func aFailedReplacementLeavesTheOldFile(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) {
        $0.fault = { op in op.code == 2 && op.length == 777 ? -ENOSPC : nil }
      }
      let io = try broker.makeApp(named: "test")
      let path = folder.appending("kept")
      try await io.writeFile(path, Array("old".utf8))
      #expect(
        await code { try await io.writeFile(path, [UInt8](repeating: 1, count: 777)) } == .system(.noSpace))
      #expect(try await io.readFile(path) == Array("old".utf8))
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.string) == ["kept"])
    }
  }

  @Test(arguments: backends)
  func chunksComeInOrder(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      let path = folder.appending("chunks")
      let bytes = (0..<100_001).map { UInt8(truncatingIfNeeded: $0 / 3) }
      try await io.writeFile(path, bytes)
      var sizes: [Int] = []
      var all: [UInt8] = []
      for try await chunk in try io.chunks(of: path, count: 30_000) {
        sizes.append(chunk.count)
        all += chunk
      }
      #expect(sizes == [30_000, 30_000, 30_000, 10_001])
      #expect(all == bytes)
      // Left before the end: the file is closed all the same.
      for try await _ in try io.chunks(of: path, count: 30_000) { break }
      try await eventually("the file's closing") {
        try await io.broker.statistics().apps[0].openDescriptors == 0
      }
    }
  }

  // R-DISK-02
  @Test(arguments: backends)
  func largeBackgroundTransfersAreCut(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) { $0.storage.chunk = 4096 }
      let io = try broker.makeApp(named: "background", state: .background)
      let file = try await io.open(folder.appending("cut"), .readWrite, options: [.create])
      let bytes = (0..<50_000).map { UInt8(truncatingIfNeeded: $0 / 5) }
      #expect(try await io.write(file, from: try IOBuffer(copying: bytes), at: 0) == 50_000)
      let back = try IOBuffer(count: 60_000)
      #expect(try await io.read(file, into: back, at: 0) == 50_000)
      #expect(try back.bytes(in: 0..<50_000) == bytes)
      let statistics = try await broker.statistics()
      #expect(statistics.background.bytesWritten == 50_000)
      #expect(statistics.background.bytesRead == 50_000)
      #expect(statistics.background.inDevice.count >= 26)
      try await io.close(file)
    }
  }

  /// Vectored ones are cut as well, between and within their buffers.
  // R-DISK-02
  @Test(arguments: backends)
  func vectoredBackgroundTransfersAreCut(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let sizes = Numbers()
      let broker = try makeBroker(backend) {
        $0.storage.chunk = 4096
        $0.fault = { op in
          guard op.code == 3 || op.code == 4, let list = UnsafeRawPointer(bitPattern: UInt(op.address)) else {
            return nil
          }
          let vectors = UnsafeBufferPointer(
            start: list.assumingMemoryBound(to: iovec.self), count: Int(op.length))
          sizes.add(vectors.reduce(0) { $0 + $1.iov_len })
          return nil
        }
      }
      let io = try broker.makeApp(named: "background", state: .background)
      let file = try await io.open(folder.appending("cut"), .readWrite, options: [.create])
      let bytes = (0..<20_000).map { UInt8(truncatingIfNeeded: $0 / 7) }
      let parts = try [0..<1000, 1000..<9000, 9000..<9001, 9001..<20_000].map {
        try IOBuffer(copying: bytes[$0])
      }
      #expect(try await io.write(file, from: parts, at: 0) == 20_000)
      #expect(sizes.values == [4096, 4096, 4096, 4096, 3616])
      #expect(try await io.readFile(folder.appending("cut")) == bytes)
      let back = try [IOBuffer(count: 6000), IOBuffer(count: 3), IOBuffer(count: 17_000)]
      #expect(try await io.read(file, into: back, at: 0) == 20_000)
      #expect(try back[0].bytes() + back[1].bytes() + back[2].bytes(in: 0..<13_997) == bytes)
      try await io.close(file)
    }
  }

  /// By the ring, by threads, and by what stands in for a ring that knows no such request.
  @Test(arguments: backends, [false, true])
  func foldersAreMade(backend: IOConfiguration.Backend, lacksRequest: Bool) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) { $0.lacksMakeFolder = lacksRequest }
      let io = try broker.makeApp(named: "folders")
      let path = folder.appending("a")
      try await io.makeFolder(path, permissions: [.ownerReadWriteExecute])
      #expect(try await io.status(path).isFolder)
      #expect(try await io.status(path).permissions == [.ownerReadWriteExecute])
      try await io.makeFolder(path.appending("b"), within: .seconds(20))
      // As mkdir makes it; whatever the process's umask is.
      let made = folder.appending("made").string
      #expect(mkdir(made, 0o755) == 0)
      let permissions = try await io.status(path.appending("b")).permissions
      #expect(try await io.status(FilePath(made)).permissions == permissions)
      let message = await #expect(throws: IOError.self) { try await io.makeFolder(path) }
      #expect(message?.code == .system(.fileExists) && message?.message.contains("of \"\(path)\"") == true)
      let deep = path.appending("c").appending("d")
      #expect(await code { try await io.makeFolder(deep) } == .system(.noSuchFileOrDirectory))
      try await io.removeFolder(path.appending("b"))
      // Not while the app is suspended, nor after its end.
      io.setState(.suspended)
      let making = Task { try await io.makeFolder(path.appending("b")) }
      try await eventually("the call") { try await broker.statistics().storage.foregroundQueued == 1 }
      #expect(access(path.appending("b").string, F_OK) != 0)
      io.setState(.background)
      try await making.value
      #expect(access(path.appending("b").string, F_OK) == 0)
      await io.terminate()
      #expect(await code { try await io.makeFolder(path.appending("c")) } == .terminated)
      #expect(access(path.appending("c").string, F_OK) != 0)
    }
  }

  // R-CARD-04
  @Test(arguments: backends)
  func registeredBuffersAreUsedAndGivenBack(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let codes = Numbers()
      let broker = try makeBroker(backend) {
        $0.registeredBuffers = .init(count: 2, size: 8192)
        $0.fault = { op in
          codes.add(Int(op.code) * 10 + Int(op.index))
          return nil
        }
      }
      let io = try broker.makeApp(named: "registered")
      let file = try await io.open(folder.appending("a"), .readWrite, options: [.create])
      var first = broker.registeredBuffer()
      let second = try #require(broker.registeredBuffer())
      #expect(first != nil && second.count == 8192 && broker.registeredBuffer() == nil)
      try second.withBytes { $0.copyBytes(from: (0..<8192).map { UInt8(truncatingIfNeeded: $0 / 32) }) }
      #expect(try await io.write(file, from: second, at: 0) == 8192)
      if let buffer = first {
        #expect(try await io.read(file, into: buffer, 100..<200, at: 3200) == 100)
        #expect(try buffer.bytes(in: 100..<103) == [100, 100, 100])
      }
      // 5 and 6 are reads and writes of registered buffers; a kernel that refuses those is served by plain
      // ones.
      if codes.values.contains(21) || codes.values.contains(20) {
        print("skipped: this kernel registers no buffers here (RLIMIT_MEMLOCK)")
      } else {
        #expect(codes.values.contains(61) && codes.values.contains(50))
      }
      first = nil
      #expect(try broker.registeredBuffer()?.bytes() == [UInt8](repeating: 0, count: 8192))
      try await io.close(file)
    }
  }

  /// Of each error, who reads it must know what it is about and what stood against it.
  @Test func messagesNameWhatTheyAreAbout() async throws {
    let io = try makeBroker(.automatic).makeApp(named: "messages")
    func message(_ body: () async throws -> Void) async -> String {
      do { try await body() } catch let error as IOError { return error.message } catch {}
      return ""
    }
    for text in [
      await message { _ = try await io.open("/no/such", .readOnly) },
      await message { _ = try await io.status("/no/such") },
      await message { try await io.remove("/no/such") },
      await message { _ = try await io.readFile("/no/such") },
    ] { #expect(text.contains("of \"/no/such\": No such file")) }
    #expect(await message { try await io.rename("/no/a", to: "/no/b") }.contains("of \"/no/a\" to \"/no/b\""))
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    let address = try listener.address()
    let late = await message { _ = try await listener.accept(within: .milliseconds(5)) }
    #expect(late.hasSuffix("the deadline passed, 0.005 seconds after the call"))
    try await listener.close()
    #expect(await message { _ = try await io.connect(to: address) }.hasPrefix("connect to \(address)"))
    var configuration = IOConfiguration()
    configuration.network.depth = 0
    #expect(await message { try configuration.validate() }.hasPrefix("network.depth is 0"))
    configuration = IOConfiguration()
    configuration.storage.cap = .fixed(0)
    #expect(await message { try configuration.validate() }.hasPrefix("storage.cap is 0"))
  }

  @Test func argumentsAreChecked() async throws {
    let io = try makeBroker(.threads).makeApp(named: "checked")
    let file = FileDescriptor(rawValue: 99_999)
    let buffer = try IOBuffer(count: 10)
    #expect(await code { _ = try await io.read(file, into: buffer, 5..<11) } == .configuration)
    #expect(await code { _ = try await io.read(file, into: buffer, at: -1) } == .configuration)
    #expect(await code { _ = try await io.read(file, into: []) } == .configuration)
    #expect(await code { try await io.truncate(file, to: -1) } == .configuration)
    #expect(await code { _ = try IOBuffer(count: 0) } == .configuration)
    #expect(await code { _ = try IOBuffer(count: 1, alignment: 48) } == .configuration)
    #expect(await code { _ = try await io.read(file, into: [buffer, buffer]) } == .bufferInUse)
    #expect(!buffer.isInUse)
    #expect(await code { try await io.writeFile("/", []) } == .configuration)
    var configuration = IOConfiguration()
    configuration.entries = 7
    #expect(await code { _ = try IOBroker(configuration: configuration) } == .configuration)
    for (count, size) in [(0, 4096), (1025, 4096), (1, 4095), (1, 4097), (1, 128 << 20)] {
      configuration = IOConfiguration()
      configuration.registeredBuffers = .init(count: count, size: size)
      #expect(await code { _ = try IOBroker(configuration: configuration) } == .configuration)
    }
  }

  /// As some file systems have it; a wrapped time would be long ago.
  @Test func timesThatDoNotFitAreClamped() {
    func modified(_ seconds: Int64, _ nanoseconds: UInt32) -> Int64 {
      withUnsafeTemporaryAllocation(byteCount: FileStatus.count, alignment: 8) { about in
        about.initializeMemory(as: UInt8.self, repeating: 0)
        about.storeBytes(of: seconds, toByteOffset: 112, as: Int64.self)
        about.storeBytes(of: nanoseconds, toByteOffset: 120, as: UInt32.self)
        return about.baseAddress.map { FileStatus($0).modified } ?? 0
      }
    }
    #expect(modified(9_223_372_036, 854_775_807) == .max)
    #expect(modified(9_223_372_036, 854_775_808) == .max)
    #expect(modified(9_223_372_037, 0) == .max)
    #expect(modified(-9_223_372_038, 999_999_999) == .min)
    #expect(modified(-1, 500_000_000) == -500_000_000)
    #expect(modified(1 << 62, 5) == .max && modified(-1 << 62, 5) == .min)
  }
}
