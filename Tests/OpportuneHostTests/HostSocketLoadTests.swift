import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneHost

/// What a client may do to a host's socket.
@Suite(.bounded) struct HostSocketLoadTests {
  /// A line that is no request, whatever it looks like; without a line feed.
  private static func malformed(_ random: inout SplitMix64) -> [UInt8] {
    func below(_ limit: Int) -> Int { Int(random.next() % UInt64(limit)) }
    switch below(4) {
    case 0: return (0..<below(200)).map { _ in UInt8(truncatingIfNeeded: random.next()) }.filter { $0 != 10 }
    case 1:
      return Array(String(repeating: ["[", "{\"a\":", "\"", "\\u00"][below(4)], count: below(3000)).utf8)
    case 2:
      let values = [
        "null", "[]", "{}", "-1", "1e999", "true", "\"\\ud800\"", "\"\(String(repeating: "x", count: 300))\"",
      ]
      return Array(
        "{\"request\":\(values[below(values.count)]),\"name\":\(values[below(values.count)])}".utf8)
    default:
      // What is cut off is no JSON.
      let whole = Array(#"{"request":"terminate","name":"x"}"#.utf8)
      return Array(whole.prefix(below(whole.count)))
    }
  }

  @Test func tenThousandMalformedMessagesAreRefusedOneByOne() async throws {
    let (place, hosted) = (try Place(), try Hosted(.signals))
    let host = hosted.host
    let server = try HostSocket.open(at: place.path) { host }
    _ = try hosted.shell("exec sleep 600", name: "x")
    let before = try #require(hosted.entry("x"))
    let client = try RawClient(place.path)
    var random = SplitMix64(seed: 10_000)
    for _ in 0..<500 {
      let lines = (0..<20).map { _ in Self.malformed(&random) }
      try client.send(Array(lines.joined(separator: [10])))
      try client.send([10])
      for line in lines {
        let answer = try JSONDecoder().decode(HostAnswer.self, from: Data(try client.line()))
        #expect(!answer.ok && answer.error?.isEmpty == false, "\(String(decoding: line, as: UTF8.self))")
      }
    }
    let after = try #require(hosted.entry("x"))
    #expect(after.pids == before.pids && after.state == "background" && after.keptBy == before.keptBy)
    #expect(try HostRequest(.apps).send(to: place.path, within: .seconds(30)).ok)
    try await hosted.end()
    withExtendedLifetime(server) {}
  }

  /// Half of them in the middle of a line. The host is another process, whose descriptors can be counted.
  @Test func twoThousandConnectionsLeaveRoomForTheNext() async throws {
    var limit = rlimit()
    getrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit)
    let before = limit
    limit.rlim_cur = min(limit.rlim_max, 4096)
    setrlimit(Int32(RLIMIT_NOFILE.rawValue), &limit)
    defer {
      var before = before
      setrlimit(Int32(RLIMIT_NOFILE.rawValue), &before)
    }
    // Each takes one descriptor here.
    try #require(limit.rlim_cur >= 2200, "the limit of open files is too low for this test")
    let place = try Place()
    let host = try await HostProgram(place, .signals)
    func descriptors() -> Int { SystemFile.names(in: "/proc/\(host.process.processIdentifier)/fd").count }
    let idle = descriptors()
    var clients: [RawClient] = []
    for number in 0..<2000 {
      let client = try RawClient(place.path)
      // A host that has cut it off meanwhile does not hear it.
      if number % 2 == 0 { try? client.send(Array(#"{"request":"#.utf8)) }
      clients.append(client)
    }
    #expect(try host.ask(.apps, nil).ok)
    #expect(descriptors() <= idle + 66, "\(descriptors()), \(idle) when idle")
    withExtendedLifetime(clients) {}
    clients = []
    try await eventually("all descriptors back") {
      _ = try host.ask(.apps, nil)
      return descriptors() <= idle + 1
    }
    host.end()
    #expect(host.process.terminationStatus == 0)
  }
}

/// A connection that sends what it is told to.
final class RawClient {
  private let descriptor: Int32
  private var read: [UInt8] = []

  init(_ path: String) throws {
    descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    let address = try #require(UnixSocketAddress(path))
    guard descriptor >= 0, address.withPointer({ connect(descriptor, $0, $1) }) == 0 else {
      throw POSIXError(POSIXError.Code(rawValue: errno) ?? .EIO)
    }
    var limit = timeval(tv_sec: 60, tv_usec: 0)
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  deinit { close(descriptor) }

  func send(_ bytes: [UInt8]) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
      }
      guard count > 0 else { throw POSIXError(POSIXError.Code(rawValue: errno) ?? .EIO) }
      rest = rest.dropFirst(count)
    }
  }

  /// The next line, without its end.
  func line() throws -> [UInt8] {
    while true {
      if let end = read.firstIndex(of: 10) {
        defer { read.removeSubrange(...end) }
        return Array(read[..<end])
      }
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = recv(descriptor, &bytes, bytes.count, 0)
      guard count > 0 else {
        throw POSIXError(count == 0 ? .ECONNRESET : POSIXError.Code(rawValue: errno) ?? .EIO)
      }
      read += bytes[..<count]
    }
  }
}
