import Foundation
import SystemPackage
import Testing

@testable import OpportuneIO

/// Requests that wait for as long as somebody else likes: whom they must not hold up.
@Suite struct LongWaitTests {
  private func makeFIFO(_ path: FilePath) throws -> FilePath {
    guard mkfifo(path.string, 0o600) == 0 else { throw Errno(rawValue: errno) }
    return path
  }

  /// As many as the cap lets through; with an offset, which a pipe has no use for.
  // R-DISK-01
  @Test(arguments: backends)
  func pipesTakeNoPlaceOfTheDevices(backend: IOConfiguration.Backend) async throws {
    let broker = try makeBroker(backend) { $0.triesAtOnce = false }
    let waiting = try broker.makeApp(named: "waits", state: .background)
    let other = try broker.makeApp(named: "other", state: .background)
    let ends = try FileDescriptor.pipe()
    for _ in 0..<8 { Task { try? await waiting.read(ends.readEnd, into: try IOBuffer(count: 1), at: 0) } }
    try await eventually("the reads") { try await broker.statistics().background.submitted == 8 }
    #expect(try await other.readFile("/proc/self/status", within: .seconds(20)).count > 0)
    await waiting.terminate()
    for end in [ends.readEnd, ends.writeEnd] { try end.close() }
  }

  /// More waiting opens than the kernel has threads by default; that of a file that is there, made by a background app.
  // R-DISK-01
  @Test(arguments: backends)
  func backgroundThatWaitsInTheKernelHoldsUpNoForeground(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) { $0.storage.cap = .fixed(40) }
      let background = try broker.makeApp(named: "background", state: .background)
      let foreground = try broker.makeApp(named: "foreground")
      let path = try makeFIFO(folder.appending("fifo"))
      // `create` has the kernel open it on a thread of its own from the start.
      let opens = (0..<40).map { _ in Task { try await background.open(path, .readOnly, options: [.create]) } }
      let cap = try await broker.statistics().storage.cap
      try await eventually("the opens") { try await broker.statistics().storage.backgroundInFlight == min(40, cap) }
      let file = try await foreground.open(
        folder.appending("file"), .writeOnly, options: [.create], within: .seconds(20))
      try await foreground.close(file)
      let otherEnd = try FileDescriptor.open(path, .readWrite)
      for open in opens { try await background.close(try await open.value) }
      try otherEnd.close()
    }
  }
}
