import Glibc
import Opportune
import SystemPackage

extension Comparison {
  /// 4 KiB of a file in the page cache, one read after the other, beside `pread`.
  static let reading: [Entry] = [
    Entry("read_inline") { try reading { _ in } },
    // By two tasks at once, each from a descriptor of its own: what calls of one app share.
    Entry("read_inline_2") { try readingByTwo() },
    // Handed to the broker's thread, as a read is that has to wait.
    Entry("read_queued") { try reading { $0.triesInline = false } },
    Entry("read_queued_threads") {
      try reading {
        $0.triesInline = false
        $0.backend = .threads
      }
    },
  ]

  private static let size = 4096

  private static func reading(_ change: (inout IOConfiguration) -> Void) throws -> Comparison {
    var configuration = IOConfiguration()
    change(&configuration)
    let broker = try IOBroker(configuration: configuration)
    let fixture = try Fixture()
    let io = try broker.makeIO(for: fixture.app)
    // This program, which is in the cache since it runs.
    let file = try FileDescriptor.open("/proc/self/exe", .readOnly)
    let buffer = try IOBuffer(count: size)
    return Comparison(
      ours: { operations in
        for _ in 0..<operations { _ = try await io.read(file, into: buffer, at: 0) }
        withExtendedLifetime(fixture) {}
      },
      rival: { operations in
        try buffer.withBytes { bytes in
          for _ in 0..<operations { _ = pread(file.rawValue, bytes.baseAddress, size, 0) }
        }
      })
  }

  private static func readingByTwo() throws -> Comparison {
    let broker = try IOBroker()
    let fixture = try Fixture()
    let io = try broker.makeIO(for: fixture.app)
    // Two files: readers of one page share its count of users in the kernel.
    let files = try ["/proc/self/exe", "/usr/bin/env"].map { try FileDescriptor.open($0, .readOnly) }
    let buffers = try files.map { _ in try IOBuffer(count: size) }
    return Comparison(
      ours: { operations in
        try await withThrowingTaskGroup(of: Void.self) { group in
          for (file, buffer) in zip(files, buffers) {
            group.addTask { for _ in 0..<operations / 2 { _ = try await io.read(file, into: buffer, at: 0) } }
          }
          try await group.waitForAll()
        }
        withExtendedLifetime(fixture) {}
      },
      rival: { operations in
        try await withThrowingTaskGroup(of: Void.self) { group in
          for (file, buffer) in zip(files, buffers) {
            group.addTask {
              try buffer.withBytes { bytes in
                for _ in 0..<operations / 2 { _ = pread(file.rawValue, bytes.baseAddress, size, 0) }
              }
            }
          }
          try await group.waitForAll()
        }
      })
  }
}
