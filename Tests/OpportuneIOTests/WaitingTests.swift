import COpportune
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Threads that block for their I/O.
@Suite(.bounded, .timeLimit(.minutes(1))) struct WaitingTests {
  private let path = FileManager.default.temporaryDirectory.appending(path: "opportune-waiting-\(UUID())")
    .path

  /// Off the pool of the language: it waits.
  // R-DISK-01, R-MEM-05
  @Test(arguments: backends)
  func aThreadGoesOnWithTheKernelsAnswer(backend: IOConfiguration.Backend) async throws {
    let (broker, io) = try makeApp(backend, named: "store", state: .background)
    let file = try FileDescriptor.open(path, .readWrite, options: [.create], permissions: .ownerReadWrite)
    defer {
      try? file.close()
      unlink(path)
    }
    let number = file.rawValue
    // Several chunks of the background class.
    let content = (0..<1_000_003).map { UInt8(truncatingIfNeeded: $0 * 7 / 3) }
    let same = await onAThread {
      content.withUnsafeBytes { io.writeWaiting(number, from: $0, at: 5) } == content.count
        && io.synchronizeDataWaiting(number) == 0
        && [UInt8](unsafeUninitializedCapacity: content.count) { buffer, count in
          count = max(0, io.readWaiting(number, into: UnsafeMutableRawBufferPointer(buffer), at: 5))
        } == content
    }
    #expect(same)
    let refused = await onAThread {
      let word = UnsafeMutableRawBufferPointer.allocate(byteCount: 8, alignment: 8)
      defer { word.deallocate() }
      return [
        io.readWaiting(-1, into: word, at: 0), io.writeWaiting(-1, from: UnsafeRawBufferPointer(word), at: 0),
        io.synchronizeDataWaiting(-1), io.readWaiting(number, into: word, at: 2_000_000),
      ]
    }
    #expect(refused == [-Int(EBADF), -Int(EBADF), -Int(EBADF), 0], "the last is behind the end")
    let statistics = try await broker.statistics()
    #expect(statistics.background.bytesWritten == 1_000_003 && statistics.background.bytesRead == 1_000_003)
    #expect(statistics.foreground.bytesWritten == 0 && statistics.foreground.bytesRead == 0)
  }

  /// Though its app has ended, and the kernel does not give the request up.
  // R-FTS-07
  @Test func aThreadStaysUntilTheKernelHasLetGo() async throws {
    guard backends.contains(.uring) else { return print("skipped: only io_uring reads pipes at an offset") }
    let broker = try makeBroker(.uring) {
      $0.fault = { $0.code == UInt8(opp_ring_code.OPP_RING_CANCEL.rawValue) ? -ENOENT : nil }
    }
    let io = try broker.makeApp(named: "lends")
    let ends = try FileDescriptor.pipe()
    let answers = Numbers()
    let waiting = Task {
      await onAThread {
        var byte: UInt8 = 0
        answers.add(
          withUnsafeMutableBytes(of: &byte) { io.readWaiting(ends.readEnd.rawValue, into: $0, at: 0) })
      }
    }
    try await eventually("the read") { try await broker.statistics().apps[0].inFlight == 1 }
    let ending = Task { await io.terminate() }
    try await othersWork()
    #expect(answers.values == [])
    _ = try ends.writeEnd.writeAll("x".utf8)
    await waiting.value
    await ending.value
    #expect(answers.count == 1)
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }

  /// Memory is lent until the call returns, and no thread waits for ever.
  // R-FTS-07
  @Test(arguments: backends)
  func aShutdownLetsThreadsGo(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend)
    let file = try FileDescriptor.open(path, .readWrite, options: [.create], permissions: .ownerReadWrite)
    defer {
      try? file.close()
      unlink(path)
    }
    let number = file.rawValue
    let answers = try await withThrowingTaskGroup(of: Int.self) { group in
      for index in 0..<4 {
        let io = try broker.makeApp(named: "\(index)", state: index % 2 == 0 ? .background : .active)
        group.addTask {
          await onAThread {
            let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
            defer { memory.deallocate() }
            _ = memory.initializeMemory(as: UInt8.self, repeating: UInt8(index))
            while true {
              let written = io.writeWaiting(number, from: UnsafeRawBufferPointer(memory), at: index << 20)
              if written < memory.count { return written }
              let read = io.readWaiting(number, into: memory, at: index << 20)
              if read < memory.count { return read }
            }
          }
        }
      }
      try await eventually("the others") { try await broker.statistics().background.completed >= 4 }
      await broker.shutdown()
      var answers: [Int] = []
      for try await answer in group { answers.append(answer) }
      return answers
    }
    #expect(answers == [Int](repeating: -Int(ECANCELED), count: 4))
  }
}
