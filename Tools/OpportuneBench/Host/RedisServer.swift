import COpportuneBench
import Glibc
import OpportuneBase
import ToolSupport

/// `redis-server` as people start it, on a Unix socket, with keys in memory alone.
final class RedisServer {
  static let valueBytes = 1000
  let socket: String
  private let program: HostedProgram

  /// - Parameter folder: for its socket, its file and what it says, all by its name.
  static func words(in folder: String, named name: String) -> [String] {
    [
      "redis-server", "--port", "0", "--unixsocket", socket(in: folder, named: name), "--dir", folder,
      "--dbfilename", "\(name).rdb", "--save", "", "--enable-debug-command", "yes",
    ]
  }

  static func socket(in folder: String, named name: String) -> String { "\(folder)/\(name).sock" }

  /// Starts it, and waits until it has `keys`.
  ///
  /// - Parameters:
  ///   - prefix: what stands before its words.
  ///   - folder: for its socket and its file.
  ///   - restores: whether it has its keys from the file that ``save()`` of another one has written there.
  init(_ prefix: [String] = [], in folder: String, named name: String, keys: Int, restores: Bool = false)
    throws
  {
    socket = Self.socket(in: folder, named: name)
    let log = "\(folder)/\(name).log"
    program = try HostedProgram(prefix + Self.words(in: folder, named: name), output: log)
    try Self.waitUntilUp(socket, keys: restores ? nil : keys, log: log)
  }

  /// - Parameters:
  ///   - keys: so many it is given first; `nil`: it has its own.
  ///   - log: what it says.
  static func waitUntilUp(_ socket: String, keys: Int?, log: String) throws {
    let deadline = SystemClock.now() + 60_000_000_000
    while true {
      if let connection = try? RedisConnection(socket) {
        // One that still reads its file answers with an error.
        let isFilled = keys.map { connection.ask("DEBUG POPULATE \($0) key \(valueBytes)") == "+OK" } ?? true
        if isFilled, connection.ask("GET key:0")?.hasPrefix("$") == true { return }
      }
      guard SystemClock.now() < deadline else {
        throw BenchError(.unavailable, "redis-server did not come up: \(TextFile.read(log) ?? "")")
      }
      SystemClock.sleep(until: SystemClock.now() + 200_000)
    }
  }

  func save() throws {
    guard try RedisConnection(socket).ask("SAVE") == "+OK" else {
      throw BenchError(.system, "redis-server did not save its keys")
    }
  }

  func stop() { program.end() }
}

/// One that asks and waits.
final class RedisConnection {
  private let socket: Int32

  init(_ path: String) throws {
    socket = try StreamSocket.connect(to: .unix(path))
    var limit = timeval(tv_sec: 60, tv_usec: 0)
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  deinit { close(socket) }

  /// The first line of the answer; nil where none came. What follows that line is dropped with the
  /// connection: a value is asked for last.
  func ask(_ command: String) -> String? {
    guard StreamSocket.send(Array("\(command)\r\n".utf8), to: socket) else { return nil }
    var answer: [UInt8] = []
    while !answer.contains(10) {
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = recv(socket, &bytes, bytes.count, 0)
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return nil }
      answer += bytes[..<count]
    }
    return String(decoding: answer.prefix { $0 != 13 }, as: UTF8.self)
  }
}

/// Asks for values at set times, over several connections, whether or not what was asked before is answered.
/// A request's latency counts from the time that was set for it.
final class RedisClient {
  private struct Connection {
    let socket: Int32
    /// The intended times of what is not answered yet.
    var waiting: ArraySlice<Nanoseconds> = []
    var replies = RedisReplies()
  }

  private static let connections = 16
  private let keys: Int
  private let watch: Int32
  private var connections: [Connection] = []
  private(set) var histogram = TimeHistogram()
  private(set) var unanswered = 0
  private(set) var fault: String?

  init(_ path: String, keys: Int) throws {
    self.keys = keys
    watch = opp_bench_watch_open()
    guard watch >= 0 else { throw BenchError.failed("the clients' sockets are not watched", -watch) }
    for number in 0..<Self.connections {
      let socket = try StreamSocket.connect(to: .unix(path))
      connections.append(Connection(socket: socket))
      let code = opp_bench_watch_add(watch, socket, UInt32(number))
      guard code == 0 else { throw BenchError.failed("a client's socket is not watched", -code) }
    }
  }

  deinit {
    for connection in connections { close(connection.socket) }
    if watch >= 0 { close(watch) }
  }

  /// - Parameters:
  ///   - rate: requests a second.
  ///   - measured: what is intended before is asked, and not counted.
  func run(
    from begin: Nanoseconds, measured: Nanoseconds, until end: Nanoseconds, rate: Int, seed: UInt64,
    isInterrupted: () -> Bool
  ) {
    let mean = 1e6 / Double(rate)
    var schedule = ArrivalSchedule(mean: mean, jitter: mean, seed: seed)
    var random = SplitMix64(seed: seed)
    var number = 0
    while begin + schedule.next < end, fault == nil, !isInterrupted() {
      let intended = begin + schedule.next
      let now = SystemClock.now()
      guard now >= intended else {
        receive(until: min(intended, now + 100_000_000), measured)
        continue
      }
      let index = number % connections.count
      number += 1
      let question = Array("GET key:\(random.next() % UInt64(keys))\r\n".utf8)
      connections[index].waiting.append(intended)
      if !StreamSocket.send(question, to: connections[index].socket) { fault = "it takes no more requests" }
      schedule.advance()
      receive(until: 0, measured)
    }
    let limit = SystemClock.now() + 5_000_000_000
    while isWaiting, fault == nil, SystemClock.now() < limit, !isInterrupted() {
      receive(until: SystemClock.now() + 10_000_000, measured)
    }
    for connection in connections {
      for intended in connection.waiting where intended >= measured {
        unanswered += 1
        histogram.record(elapsed(from: intended, to: SystemClock.now()))
      }
    }
  }

  private var isWaiting: Bool { connections.contains { !$0.waiting.isEmpty } }

  private func receive(until end: Nanoseconds, _ measured: Nanoseconds) {
    var ready = [UInt32](repeating: 0, count: Self.connections)
    let count = opp_bench_watch_wait(watch, &ready, UInt32(ready.count), end)
    guard count > 0 else { return }
    let now = SystemClock.now()
    for number in ready[..<Int(count)] { take(Int(number), now, measured) }
  }

  private func take(_ index: Int, _ now: Nanoseconds, _ measured: Nanoseconds) {
    let answers = withUnsafeTemporaryAllocation(byteCount: 65_536, alignment: 16) { memory in
      let count = recv(connections[index].socket, memory.baseAddress, memory.count, Int32(MSG_DONTWAIT))
      if count == 0 { fault = "it closed a connection" }
      guard count > 0 else { return 0 }
      return connections[index].replies.take(UnsafeRawBufferPointer(rebasing: memory[..<count]))
    }
    guard answers >= 0 else {
      fault = "an answer is none of the protocol"
      return
    }
    for _ in 0..<answers {
      guard let intended = connections[index].waiting.popFirst() else {
        fault = "it answered what was not asked"
        return
      }
      if intended >= measured { histogram.record(elapsed(from: intended, to: now)) }
    }
  }
}

/// Counts the values in a stream of answers: `$`, a length, a line end, so many bytes, a line end.
struct RedisReplies {
  /// Of the value and its line end; nil while its length is read.
  private var left: Int?
  private var length = 0
  private var isInLength = false

  /// - Returns: how many ended; -1 where it is no value of the length that all have.
  mutating func take(_ bytes: UnsafeRawBufferPointer) -> Int {
    var ended = 0
    var index = 0
    while index < bytes.count {
      if let left {
        let taken = min(left, bytes.count - index)
        index += taken
        self.left = left - taken
        guard left == taken else { break }
        self.left = nil
        ended += 1
        continue
      }
      let byte = bytes[index]
      index += 1
      switch byte {
      case UInt8(ascii: "$") where !isInLength:
        isInLength = true
        length = 0
      case UInt8(ascii: "0")...UInt8(ascii: "9") where isInLength && length < 1 << 20:
        length = length * 10 + Int(byte - UInt8(ascii: "0"))
      case 13 where isInLength: break
      case 10 where isInLength && length == RedisServer.valueBytes:
        isInLength = false
        left = length + 2
      default: return -1
      }
    }
    return ended
  }
}
