import CIOTestSupport
import Foundation
import SystemPackage
import Testing

@testable import OpportuneIO

/// File systems of a network or of a program that do not answer any more.
@Suite(.serialized) struct HangTests {
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
      guard error == 0 else { return print("skipped: this process may not mount a FUSE (errno \(-error))") }
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
}
