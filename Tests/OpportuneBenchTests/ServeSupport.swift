import Foundation
import OpportuneBase

@testable import OpportuneBench

/// A folder of a test, gone with it.
final class ServeTestFolder {
  let path: String

  init() throws {
    path = "\(NSTemporaryDirectory())serve-\(String(UInt32.random(in: 0 ... .max), radix: 36))"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  /// Files of random words.
  func tree(files: Int, words: Int) throws -> String {
    let folder = "\(path)/tree"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    for document in randomDocuments(files, words: words, seed: 5) {
      try Data(document.text).write(to: URL(filePath: "\(folder)/\(document.id).txt"))
    }
    return folder
  }
}

/// Few words, so that they meet in rows, with gaps of which some end a phrase.
func randomDocuments(_ count: Int, words: Int, seed: UInt64) -> [SourceDocument] {
  var random = SplitMix64(seed: seed)
  let vocabulary =
    (0..<60).map { number in "word\(String(number * number, radix: 36))_x" } + ["a", "éclair", "NUL"]
  return (0..<count).map { id in
    var text: [UInt8] = []
    for _ in 0..<Int.random(in: 0...words, using: &random) {
      text += (vocabulary.randomElement(using: &random) ?? "word").utf8
      let gap = Int.random(in: 0..<20, using: &random) == 0 ? 70 : 1
      text.append(
        contentsOf: repeatElement(UInt8(ascii: Bool.random(using: &random) ? " " : "."), count: gap))
      if Int.random(in: 0..<8, using: &random) == 0 { text.append(UInt8(ascii: "\n")) }
    }
    if text.last != UInt8(ascii: "\n") { text.append(UInt8(ascii: "\n")) }
    return SourceDocument(id: UInt32(id), text: text[...])
  }
}

/// A contender's server in the process of the test.
final class ServerHere: RunningServer, @unchecked Sendable {
  let process = getpid()
  private let server: any SearchServer
  private var isStopped = false

  init(_ setup: ServerSetup) throws {
    guard let server = ServeContender.named(setup.contender)?.make?() else {
      throw BenchError(.invalidArgument, setup.contender)
    }
    self.server = server
    try Self.blocking { try await server.start(setup) }
  }

  func end() -> String? { nil }

  func stop() {
    guard !isStopped else { return }
    isStopped = true
    let server = server
    try? Self.blocking { await server.stop() }
  }

  private final class Outcome: @unchecked Sendable { var error: (any Error)? }

  private static func blocking(_ body: @escaping @Sendable () async throws -> Void) throws {
    let gate = Gate()
    let outcome = Outcome()
    Task.detached {
      do { try await body() } catch { outcome.error = error }
      gate.open()
    }
    gate.wait()
    if let error = outcome.error { throw error }
  }
}

/// A disk that tells how the files were opened that are read, and of which reads wait while it holds them.
final class WatchedDisk: Disk, @unchecked Sendable {
  private let lock = Lock()
  private var modes: [DiskMode] = []  // protected by `lock`
  private var isHeld = false  // protected by `lock`

  var reads: [DiskMode] { lock.withLock { modes } }
  func forget() { lock.withLock { modes = [] } }
  func hold(_ holds: Bool) { lock.withLock { isHeld = holds } }

  func open(_ path: String, _ mode: DiskMode, for side: Side) async throws -> any DiskFile {
    File(try await PlainDisk().open(path, mode, for: side), mode, self)
  }

  private final class File: DiskFile {
    let file: any DiskFile
    let mode: DiskMode
    let disk: WatchedDisk

    init(_ file: any DiskFile, _ mode: DiskMode, _ disk: WatchedDisk) {
      self.file = file
      self.mode = mode
      self.disk = disk
    }

    var size: Int { get async throws { try await file.size } }

    func read<Value>(
      _ count: Int, at offset: Int, for side: Side, _ body: (UnsafeRawBufferPointer) throws -> Value
    ) async throws -> Value {
      disk.lock.withLock { disk.modes.append(mode) }
      while disk.lock.withLock({ disk.isHeld }) { await Task.yield() }
      return try await file.read(count, at: offset, for: side, body)
    }

    func write(
      _ count: Int, at offset: Int, for side: Side, _ fill: (UnsafeMutableRawBufferPointer) -> Void
    ) async throws { try await file.write(count, at: offset, for: side, fill) }

    func synchronize(for side: Side) async throws { try await file.synchronize(for: side) }
  }
}
