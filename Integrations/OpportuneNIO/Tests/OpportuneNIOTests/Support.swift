import Foundation
import Hummingbird
import Logging
import NIOConcurrencyHelpers
import NIOEmbedded
import Opportune
import Testing

/// A scheduler of its own for each test.
func makeScheduler(workers: Int = 2) throws -> Scheduler {
  var configuration = SchedulerConfiguration()
  configuration.name = "test"
  configuration.workers = .fixed(workers)
  return try Scheduler(configuration: configuration)
}

/// Sends a request to a router, without a server.
func respond(
  _ responder: RouterResponder<BasicRequestContext>, _ path: String, headers: HTTPFields = [:]
) async throws -> Response {
  let request = Request(
    head: HTTPRequest(
      method: .get, scheme: "http", authority: "localhost", path: path, headerFields: headers),
    body: RequestBody(buffer: ByteBuffer()))
  let source = ApplicationRequestContextSource(
    channel: NIOAsyncTestingChannel(), logger: Logger(label: "test"))
  return try await responder.respond(to: request, context: BasicRequestContext(source: source))
}

/// The bytes of a response's body, as text.
func text(_ response: Response) async throws -> String {
  let bytes = Collected()
  try await response.body.write(CollectingWriter(into: bytes))
  return bytes.text
}

func text(_ responder: RouterResponder<BasicRequestContext>, _ path: String) async throws -> String {
  try await text(try await respond(responder, path))
}

final class Collected: Sendable {
  private let buffer = NIOLockedValueBox(ByteBuffer())

  var text: String { buffer.withLockedValue { String(buffer: $0) } }
  func add(_ more: ByteBuffer) { buffer.withLockedValue { _ = $0.writeImmutableBuffer(more) } }
}

struct CollectingWriter: ResponseBodyWriter {
  let bytes: Collected

  init(into bytes: Collected) { self.bytes = bytes }
  func write(_ buffer: ByteBuffer) async throws { bytes.add(buffer) }
  func finish(_ trailingHeaders: HTTPFields?) async throws {}
}

/// What happened, in order.
final class Events: Sendable {
  private let list = NIOLockedValueBox<[String]>([])

  var all: [String] { list.withLockedValue { $0 } }
  func add(_ event: String) { list.withLockedValue { $0.append(event) } }
}

/// A gate that tasks wait at until it is opened.
final class Gate: Sendable {
  private let state = NIOLockedValueBox<(isOpen: Bool, waiting: [CheckedContinuation<Void, Never>])>(
    (false, []))

  var isOpen: Bool { state.withLockedValue { $0.isOpen } }

  func open() {
    let waiting = state.withLockedValue { state in
      defer { state = (true, []) }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  func wait() async {
    await withCheckedContinuation { continuation in
      let isOpen = state.withLockedValue { state in
        if !state.isOpen { state.waiting.append(continuation) }
        return state.isOpen
      }
      if isOpen { continuation.resume() }
    }
  }
}

/// The pool of the calling worker, by the name of its thread; nil on any other.
func poolOfThread() -> String? {
  let name = (try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)) ?? ""
  return ["fg", "bg"].first { name.contains("-\($0)") }
}

/// Waits for what others bring about and tell nobody of; throws after half a minute.
func eventually(_ what: String, _ condition: () async -> Bool) async throws {
  let end = ContinuousClock.now + .seconds(30)
  while await !condition() {
    guard ContinuousClock.now < end else { throw NotCome(what: what) }
    await Task.yield()
  }
}

struct NotCome: Error { let what: String }

/// Sends a request to a server on this machine by a thread of its own, and returns all of the answer.
func fetch(_ path: String, port: Int) async throws -> String {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detachNewThread { continuation.resume(with: Result { try exchange(path, port) }) }
  }
}

private func exchange(_ path: String, _ port: Int) throws -> String {
  struct Failed: Error {
    let call: String
    let number = errno
  }
  let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
  guard socket >= 0 else { throw Failed(call: "socket") }
  defer { close(socket) }
  var time = timeval(tv_sec: 60, tv_usec: 0)
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
  var address = sockaddr_in()
  address.sin_family = sa_family_t(AF_INET)
  address.sin_port = in_port_t(port).bigEndian
  address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
  let connected = withUnsafePointer(to: &address) {
    $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
      connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
    }
  }
  guard connected == 0 else { throw Failed(call: "connect") }
  let request = Array("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
  guard send(socket, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
    throw Failed(call: "send")
  }
  var answer: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 4096)
  while true {
    let count = recv(socket, &chunk, chunk.count, 0)
    guard count >= 0 else { throw Failed(call: "recv") }
    guard count > 0 else { return String(decoding: answer, as: UTF8.self) }
    answer += chunk[..<count]
  }
}
