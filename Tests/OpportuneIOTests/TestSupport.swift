import COpportune
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Both backends, or only threads where the kernel refuses io_uring.
let backends: [IOConfiguration.Backend] = {
  var configuration = IOConfiguration()
  configuration.backend = .uring
  guard (try? IOBroker(configuration: configuration)) != nil else {
    print("skipped: io_uring is refused here; only the thread backend is tested")
    return [.threads]
  }
  return [.uring, .threads]
}()

func makeBroker(
  _ backend: IOConfiguration.Backend, _ change: (inout IOConfiguration) -> Void = { _ in }
) throws -> IOBroker {
  var configuration = IOConfiguration()
  configuration.backend = backend
  change(&configuration)
  return try IOBroker(configuration: configuration)
}

/// A broker that sends without copying; nil, and it is said, where the kernel does not.
func makeZeroCopyBroker(_ change: (inout IOConfiguration) -> Void = { _ in }) throws -> IOBroker? {
  let broker = try makeBroker(.automatic) {
    $0.zeroCopyFrom = 4096
    $0.triesInline = false  // what is done at once is copied
    change(&$0)
  }
  if broker.capabilities.sendsWithoutCopying { return broker }
  print("skipped: this kernel sends with a copy only")
  return nil
}

/// A broker, and an app of it.
func makeApp(
  _ backend: IOConfiguration.Backend, named name: String, state: IOState = .active
) throws -> (broker: IOBroker, io: AppIO) {
  let broker = try makeBroker(backend)
  return (broker, try broker.makeApp(named: name, state: state))
}

/// A folder for one test, removed at the end.
func withFolder<Result>(_ body: (FilePath) async throws -> Result) async throws -> Result {
  let folder = FileManager.default.temporaryDirectory.path + "/opp-io-\(UUID().uuidString)"
  try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
  defer { try? FileManager.default.removeItem(atPath: folder) }
  return try await body(FilePath(folder))
}

/// Goes on once another broker has answered 500 questions: in this time a poll loop would be seen.
func othersWork() async throws {
  let other = try IOBroker()
  for _ in 0..<500 { _ = try await other.statistics() }
  await other.shutdown()
}

/// Has the reactor stand still until `gate` is signalled; it does so when `holds` is.
private func hold(_ broker: IOBroker) -> (gate: DispatchSemaphore, holds: DispatchSemaphore) {
  let (gate, holds) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
  broker.reactor.post(
    Control { _ in
      holds.signal()
      gate.wait()
    })
  return (gate, holds)
}

/// Has the reactor stand still until what this returns is signalled.
func heldReactor(_ broker: IOBroker) async -> DispatchSemaphore {
  let (gate, holds) = hold(broker)
  await onAThread { holds.wait() }
  return gate
}

/// Has the reactor do what `post` posts without a look in between: it is held while that is posted, and
/// fetches all of it then.
func inOneTurn<Result>(_ broker: IOBroker, _ post: () throws -> Result) rethrows -> Result {
  let (gate, holds) = hold(broker)
  // Posted before it holds, the first of these might be fetched without the others.
  holds.wait()
  defer { gate.signal() }
  return try post()
}

/// What `body` returns on a thread of its own, which may wait.
func onAThread<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
  await withCheckedContinuation { continuation in
    Thread.detachNewThread { continuation.resume(returning: body()) }
  }
}

/// A pair of connected sockets of nobody's.
func descriptorPair() throws -> (FileDescriptor, FileDescriptor) {
  let ends = try socketPair()
  return (FileDescriptor(rawValue: ends.0), FileDescriptor(rawValue: ends.1))
}

/// The code of the error that `body` throws, or nil.
func code(_ body: () async throws -> Void) async -> IOError.Code? {
  do {
    try await body()
    return nil
  } catch let error as IOError {
    return error.code
  } catch {
    return nil
  }
}

/// A pair of connected stream sockets of one app, over TCP.
func connectedPair(_ io: AppIO, _ other: AppIO? = nil) async throws -> (FileDescriptor, FileDescriptor) {
  let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
  async let accepted = listener.accept()
  let client = try await (other ?? io).connect(to: try listener.address())
  let server = try await accepted
  try await listener.close()
  return (server, client)
}

/// A datagram socket of each of two apps, or two of one, on ports of their own.
func datagramPair(_ io: AppIO, _ other: AppIO? = nil) async throws -> (FileDescriptor, FileDescriptor) {
  let mine = try await io.datagramSocket(on: .ipv4("127.0.0.1", port: 0))
  return (mine, try await (other ?? io).datagramSocket(on: .ipv4("127.0.0.1", port: 0)))
}

/// A FIFO, for a test of what waits for its other end.
func makeFIFO(_ path: FilePath) throws -> FilePath {
  guard mkfifo(path.string, 0o600) == 0 else { throw Errno(rawValue: errno) }
  return path
}
