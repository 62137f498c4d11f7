import CIOTestSupport
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Network and FUSE file systems that no longer answer.
@Suite(.bounded, .serialized, .enabled(if: mayMount, "this process may not mount a FUSE")) struct HangTests {
  enum Call: CaseIterable {
    case open, openNonBlocking, read, write
  }

  /// A call for a file of such goes on to its deadline, and holds up nobody else.
  // R-DISK-01
  @Test(.timeLimit(.minutes(2)), arguments: backends, Call.allCases)
  func whatHangsHoldsUpNobodyElse(backend: IOConfiguration.Backend, call: Call) async throws {
    try await withFolder { folder in
      let path = folder.appending("file")
      try FileDescriptor.open(path, .writeOnly, options: .create, permissions: .ownerReadWrite).close()
      let opens = call == .open || call == .openNonBlocking
      let error = io_test_hang(path.string, opens ? 0 : 1)
      try #require(error == 0)
      defer { io_test_end_hang(path.string) }
      let broker = try makeBroker(backend)
      let (io, other) = (try broker.makeApp(named: "waits"), try broker.makeApp(named: "other"))
      let (told, answered) = (Numbers(), Numbers())
      let file = opens ? nil : try FileDescriptor.open(path, .readWrite)
      let calling = Task {
        let limit = Duration.milliseconds(20)
        let error = await code {
          let buffer = try IOBuffer(count: 10)
          guard let file else {
            let options: FileDescriptor.OpenOptions = call == .open ? [] : .nonBlocking
            _ = try await io.open(path, .readWrite, options: options, within: limit)
            return
          }
          if call == .read {
            _ = try await io.read(file, into: buffer, at: 0, within: limit)
          } else {
            try await io.write(file, from: buffer, at: 0, within: limit)
          }
        }
        told.add(1)
        return error
      }
      try await eventually("the call's end") { told.count == 1 }
      let asking = Task {
        _ = try await other.status("/proc")
        answered.add(1)
      }
      try await eventually("another's answer") { answered.count == 1 }
      io_test_end_hang(path.string)
      #expect(await calling.value == .deadlineExceeded)
      try await asking.value
      try? file?.close()  // whose file system is gone
      await broker.shutdown()
    }
  }

  // R-DISK-01
  @Test(.timeLimit(.minutes(2)), arguments: backends, [true, false])
  func wholeFilesEndAtTheirDeadline(backend: IOConfiguration.Backend, inChunks: Bool) async throws {
    try await withHang { path in
      let (broker, io) = try makeApp(backend, named: "reads")
      let error = await code {
        let limit = Duration.milliseconds(20)
        if inChunks {
          for try await _ in try io.chunks(of: path, within: limit) {}
        } else {
          _ = try await io.readFile(path, within: limit)
        }
      }
      #expect(error == .deadlineExceeded)
      io_test_end_hang(path.string)
      await broker.shutdown()
    }
  }

  /// A read that hangs keeps its own file open after the end of its app, and nothing else.
  // R-FTS-08
  @Test(.timeLimit(.minutes(2)), arguments: backends)
  func theEndOfAnAppClosesWhatDoesNotHang(backend: IOConfiguration.Backend) async throws {
    try await withHang { path in
      let broker = try makeBroker(backend)
      let (io, other) = (try broker.makeApp(named: "ends"), try broker.makeApp(named: "other"))
      let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
      let address = try listener.address()
      let file = try await io.open(path, .readOnly)
      let reading = Task { await code { _ = try await io.read(file, into: try IOBuffer(count: 10), at: 0) } }
      try await eventually("the read") { try await broker.statistics().storage.foregroundInFlight == 1 }
      let ending = Task { await io.terminate() }
      try await eventually("the listener's close") {
        await code { try await other.close(other.connect(to: address)) } == .system(.connectionRefused)
      }
      io_test_end_hang(path.string)
      #expect(await reading.value == .terminated)
      await ending.value
      await broker.shutdown()
    }
  }

  /// With a file that can be opened, and then answers nothing.
  private func withHang(_ body: (FilePath) async throws -> Void) async throws {
    try await withFolder { folder in
      let path = folder.appending("file")
      try FileDescriptor.open(path, .writeOnly, options: .create, permissions: .ownerReadWrite).close()
      try #require(io_test_hang(path.string, 1) == 0)
      defer { io_test_end_hang(path.string) }
      try await body(path)
    }
  }
}

private let mayMount: Bool = {
  let path = FileManager.default.temporaryDirectory.path + "/opp-hang-\(UUID().uuidString)"
  guard FileManager.default.createFile(atPath: path, contents: nil) else { return false }
  defer { unlink(path) }
  let error = io_test_hang(path, 1)
  if error == 0 {
    io_test_end_hang(path)
  } else {
    print("skipped: a FUSE may not be mounted here (errno \(-error))")
  }
  return error == 0
}()
