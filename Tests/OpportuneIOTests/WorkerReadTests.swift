import CIOTestSupport
import COpportune
import Glibc
import OpportuneScheduler
import Synchronization
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Reads of the foreground that wait for the device on the workers of their callers.
@Suite(.bounded, .serialized) struct WorkerReadTests {
  private static let block = 4096

  /// A file of 65 blocks that is read past the page cache; nil where the file system has no such reads.
  private func directFile(_ io: AppIO, _ folder: FilePath) async throws -> FileDescriptor? {
    let path = folder.appending("blocks")
    try await io.writeFile(path, [UInt8](repeating: 7, count: 65 * Self.block))
    do throws(IOError) {
      return try await io.open(path, .readOnly, options: .direct)
    } catch {
      guard error.code == .system(.invalidArgument) else { throw error }
      print("skipped: the temporary folder's file system has no direct reads")
      return nil
    }
  }

  private func read(
    _ file: FileDescriptor, _ io: AppIO, _ app: App, blocks: Int = 1, within limit: Duration? = nil
  ) async throws -> Int {
    try await app.task {
      let buffer = try IOBuffer(count: blocks * Self.block, alignment: Self.block)
      return try await io.read(file, into: buffer, at: 0, within: limit)
    }.value
  }

  // R-DISK-01 R-DISK-02
  /// The read ends although the reactor stands still: nobody is between the kernel and who asks.
  @Test(arguments: backends)
  func aDirectReadNeedsNoReactor(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let scheduler = try Scheduler()
      let (app, broker) = (try scheduler.makeApp(named: "front"), try makeBroker(backend))
      let io = try broker.makeIO(for: app)
      guard let file = try await directFile(io, folder) else { return }
      let gate = await heldReactor(broker)
      let count = await Task { try await read(file, io, app) }.result
      #expect(try await Task { try await read(file, io, app, blocks: 64) }.value == 64 * Self.block)
      gate.signal()
      #expect(try count.get() == Self.block)
      #expect(broker.reactor.readsOnWorkers.count == 0)
      let front = try await broker.statistics().apps[0].foreground
      #expect(front.inline >= 2)
      await broker.shutdown()
      try await scheduler.shutdown()
    }
  }

  // R-DISK-01
  /// What has a deadline, is large, or is of the background goes its way through the reactor.
  @Test(arguments: backends)
  func othersGoThroughTheReactor(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let scheduler = try Scheduler()
      let (front, broker) = (try scheduler.makeApp(named: "front"), try makeBroker(backend))
      let back = try scheduler.makeApp(named: "back", band: .background)
      let (io, backIO) = (try broker.makeIO(for: front), try broker.makeIO(for: back))
      guard let file = try await directFile(io, folder) else { return }
      func handedOver() async throws -> UInt64 {
        try await broker.statistics().apps.reduce(0) {
          $0 + $1.foreground.submitted + $1.background.submitted
        }
      }
      let before = try await handedOver()
      #expect(try await read(file, io, front, within: .seconds(60)) == Self.block)
      #expect(try await read(file, io, front, blocks: 65) == 65 * Self.block)
      #expect(try await read(file, backIO, back) == Self.block)
      #expect(try await handedOver() == before + 3)
      await broker.shutdown()
      try await scheduler.shutdown()
    }
  }

  /// Who reads, and until when.
  private final class Reader: Sendable {
    // relaxed, both: one thread tells another something that orders nothing.
    let thread = Atomic<Int32>(0)
    let isSeen = Atomic<Bool>(false)
  }

  // R-DISK-01
  /// A read has the I/O priority of a request, and its worker has it no longer than that: neither what else
  /// the job reads nor the next job on that thread is one.
  @Test(.enabled(if: io_test_may_be_real_time() != 0, "I/O may not be real-time here"))
  func aReadRaisesItsWorkerNoLongerThanItLasts() async throws {
    try await withFolder { folder in
      let scheduler = try Scheduler()
      let (app, broker) = (try scheduler.makeApp(named: "front"), try makeBroker(.automatic))
      let (other, io) = (try scheduler.makeApp(named: "other"), try broker.makeIO(for: app))
      guard let file = try await directFile(io, folder) else { return }
      let reader = Reader()
      defer { reader.isSeen.store(true, ordering: .relaxed) }
      let reads = app.task {
        let buffer = try IOBuffer(count: Self.block, alignment: Self.block)
        var classes: Set<Int32> = []
        repeat {
          reader.thread.store(opp_thread_id(), ordering: .relaxed)
          #expect(try await io.read(file, into: buffer, at: 0) == Self.block)
          classes.insert(io_test_io_class(0))
        } while !reader.isSeen.load(ordering: .relaxed)
        return classes
      }
      try await eventually("a real-time read") {
        // Most of the time the thread is inside a read.
        (0..<1000).contains { _ in io_test_io_class(reader.thread.load(ordering: .relaxed)) == 1 }
      }
      reader.isSeen.store(true, ordering: .relaxed)
      #expect(try await reads.value == [0], "in the same job, after the read")
      let thread = reader.thread.load(ordering: .relaxed)
      var isOnReader = false
      // Which of the workers takes a job is the kernel's choice: until one is the reader, or it has ended.
      for _ in 0..<100_000 where !isOnReader {
        isOnReader = await other.task {
          #expect(io_test_io_class(0) == 0)
          return opp_thread_id() == thread
        }.value
      }
      #expect(isOnReader || io_test_io_class(thread) <= 0, "in another app's job there")
      await broker.shutdown()
      try await scheduler.shutdown()
    }
  }

  // R-DISK-01
  /// The adaptive cap follows the latency of each request, so each shows itself to the reactor.
  @Test func withAnAdaptiveCapNoneWaitsOnItsWorker() throws {
    let policy = DevicePolicy(cap: .adaptive(target: .milliseconds(1)))
    #expect(!ReadsOnWorkers(policy, .none).begin())
    let few = ReadsOnWorkers(DevicePolicy(depth: 4), .none)
    #expect(few.begin() && few.begin() && !few.begin() && few.count == 2)
    #expect(!few.end(bytes: 1 << 20))
    #expect(few.begin())
    // Background would have no place beside it, and nobody to tell it of the end.
    #expect(!ReadsOnWorkers(DevicePolicy(depth: 2), .none).begin())
  }

  // R-DISK-02
  /// Who ends the last long read has the reactor look at the background that it has held back, once.
  @Test func theEndOfALongReadLetsBackgroundGoOn() {
    let reads = ReadsOnWorkers(DevicePolicy(depth: 64), .none)
    func read(_ bytes: Int, held: Bool) -> Bool {
      guard reads.begin() else { return false }
      reads.tell(holdsBackground: held)
      return reads.end(bytes: bytes)
    }
    #expect(read(256 << 10, held: true))
    #expect(!read(256 << 10, held: false))
    #expect(!read(64 << 10, held: true))
    #expect(reads.begin() && reads.begin())
    reads.tell(holdsBackground: true)
    #expect(!reads.end(bytes: 256 << 10), "another still reads")
    #expect(reads.end(bytes: 256 << 10))
    #expect(reads.begin() && !reads.end(bytes: 256 << 10), "it has been told")
  }

  // R-DISK-01
  /// A number may belong to another kind of file after its close, and is looked up anew then.
  @Test func aDescriptorsKindIsKnownUntilItsClose() async throws {
    try await withFolder { folder in
      let (broker, io) = try makeApp(.automatic, named: "app")
      let path = folder.appending("file")
      try await io.writeFile(path, [1])
      let file = try await io.open(path, .readOnly)
      let kinds = broker.reactor.descriptorKinds
      func closes() -> UInt64 { broker.reactor.gates[file.rawValue].pointee.closes }
      let kind = kinds.kind(of: file.rawValue, since: closes())
      guard kind == .cached else { return print("skipped: the temporary folder is on no device") }
      let (reader, writer) = try descriptorPair()
      defer { for end in [reader, writer] { try? end.close() } }
      let closesBefore = closes()
      try await io.close(file)
      #expect(dup2(reader.rawValue, file.rawValue) == file.rawValue)
      defer { _ = Glibc.close(file.rawValue) }
      #expect(kinds.kind(of: file.rawValue, since: closesBefore) == .cached)  // as who began before
      #expect(kinds.kind(of: file.rawValue, since: closes()) == .other)
      #expect(kinds.kind(of: -1, since: 0) == .other)
      await broker.shutdown()
    }
  }
}
