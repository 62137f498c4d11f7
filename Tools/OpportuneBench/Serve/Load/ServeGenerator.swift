import COpportuneBench
import Glibc
import OpportuneBase

/// One request of a client, from its intended time on. Times in nanoseconds of `CLOCK_MONOTONIC`; 0 is "not
/// yet".
struct ServeSample: Sendable {
  let kind: ServeRequest.Kind
  let question: Int
  let intended: Nanoseconds
  var sent: Nanoseconds = 0
  var answered: Nanoseconds = 0
  /// Microseconds until its thread was seen at a lower priority; 0 if it never was.
  var loweredAfter: UInt32 = 0
  /// As the server says.
  var spent = ServeResponse.Spent()
}

/// All clients, on one thread: sends at the intended times, late or not, and stamps answers as they come. In
/// a real-time class where the machine allows that, so that it does not wait for what it measures.
final class ServeGenerator {
  private let plan: ServePlan
  private let questions: ServeQuestions
  private var connections: [Connection] = []
  /// Of all connections: looking at each of thousands in turn would take longer than a request.
  private let watch: Int32
  private var ready = [UInt32](repeating: 0, count: 64)
  private(set) var samples: [ServeSample] = []
  /// The first answer that was wrong.
  private(set) var fault: String?

  /// How many of each kind were asked.
  private var asked: [ServeRequest.Kind: Int] = [:]

  private struct Connection {
    let socket: Int32
    var reader = MessageReader()
    /// Of what the socket did not take yet.
    var unsent: [UInt8] = []
    var waitsForRoom = false
    var isOpen = true
  }

  /// Connects all clients.
  init(_ plan: ServePlan, _ questions: ServeQuestions, address: ServeAddress) throws {
    self.plan = plan
    self.questions = questions
    watch = opp_bench_watch_open()
    guard watch >= 0 else { throw BenchError.failed("no watch over the clients' sockets", -watch) }
    for index in 0..<plan.connections {
      let socket = try StreamSocket.connect(to: address)
      _ = fcntl(socket, F_SETFL, O_NONBLOCK)
      connections.append(Connection(socket: socket))
      let code = opp_bench_watch_add(watch, socket, UInt32(index))
      guard code == 0 else { throw BenchError.failed("a client's socket is not watched", -code) }
    }
  }

  deinit {
    for connection in connections { close(connection.socket) }
    if watch >= 0 { close(watch) }
  }

  /// Sends what is intended until the plan's end, and waits for answers until `limit` after it.
  func run(from begin: Nanoseconds, limit: Nanoseconds, isInterrupted: () -> Bool) {
    sharpenTimersOfCaller()
    var streams = plan.streams()
    var earliest = Self.earliest(streams)
    while let next = earliest, !isInterrupted() {
      let intended = begin + streams[next].schedule.next
      let now = SystemClock.now()
      if now < intended {
        // Ctrl-C is looked for ten times a second.
        receive(until: min(intended, now + 100_000_000))
        continue
      }
      send(streams[next].kind(streams[next].arrivals), on: streams[next].connection, intended: intended)
      streams[next].schedule.advance()
      streams[next].arrivals += 1
      earliest = Self.earliest(streams)
      receive(until: 0)
    }
    // What was answered late counts with all of its time.
    waitForAnswers(until: SystemClock.now() + limit, isInterrupted)
    guard plan.load == .idle else { return }
    for index in 0..<plan.heavyWhenIdle where !isInterrupted() {
      send(.heavy, on: plan.clients + index % plan.heavyConnections, intended: SystemClock.now())
      waitForAnswers(until: SystemClock.now() + limit, isInterrupted)
    }
  }

  private var outstanding: Int { samples.count - answered }
  private var answered = 0

  private func waitForAnswers(until end: Nanoseconds, _ isInterrupted: () -> Bool) {
    while outstanding > 0, SystemClock.now() < end, !isInterrupted(), connections.contains(where: \.isOpen) {
      receive(until: min(end, SystemClock.now() + 100_000_000))
    }
  }

  static func earliest(_ streams: [ServePlan.Stream]) -> Int? {
    var earliest: Int?
    for index in streams.indices where streams[index].schedule.next < streams[index].end {
      if let other = earliest, streams[other].schedule.next <= streams[index].schedule.next { continue }
      earliest = index
    }
    return earliest
  }

  private func send(_ kind: ServeRequest.Kind, on connection: Int, intended: Nanoseconds) {
    let of = questions(of: kind)
    guard !of.isEmpty else { return }
    // All questions of a kind come in turn, in an order that is the same for every contender.
    let question = (asked[kind, default: 0] &* 7919 &+ Int(plan.seed % 1009)) % of.count
    asked[kind, default: 0] += 1
    let request = ServeRequest(id: UInt64(samples.count), kind: kind, text: of[question].text)
    samples.append(
      ServeSample(kind: kind, question: question, intended: intended, sent: SystemClock.now()))
    connections[connection].unsent += request.encoded()
    flush(connection)
  }

  private func questions(of kind: ServeRequest.Kind) -> [ServeQuestion] {
    switch kind {
    case .short: questions.short
    case .phrase: questions.phrase
    case .heavy: questions.heavy
    case .fresh: questions.fresh
    case .statistics: []
    }
  }

  private func flush(_ index: Int) {
    guard connections[index].isOpen, !connections[index].unsent.isEmpty else { return }
    let sent = connections[index].unsent.withUnsafeBytes {
      Glibc.send(connections[index].socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
    }
    if sent > 0 {
      connections[index].unsent.removeFirst(sent)
    } else if errno != EAGAIN, errno != EINTR {
      end(index)
    }
    watchForRoom(index)
  }

  /// Only where something is left to be sent: there nearly always is room.
  private func watchForRoom(_ index: Int) {
    let writes = !connections[index].unsent.isEmpty
    guard connections[index].isOpen, writes != connections[index].waitsForRoom else { return }
    connections[index].waitsForRoom = writes
    _ = opp_bench_watch_change(watch, connections[index].socket, UInt32(index), writes)
  }

  private func end(_ index: Int) {
    connections[index].isOpen = false
    _ = opp_bench_watch_remove(watch, connections[index].socket)
  }

  /// Takes what comes until then; once what is there has been taken.
  private func receive(until end: Nanoseconds) {
    let count = opp_bench_watch_wait(watch, &ready, UInt32(ready.count), end)
    guard count > 0 else { return }
    let now = SystemClock.now()
    for number in ready[..<Int(count)] {
      flush(Int(number))
      take(Int(number), now)
    }
  }

  private func take(_ index: Int, _ now: Nanoseconds) {
    guard connections[index].isOpen else { return }
    guard StreamSocket.receive(from: connections[index].socket, into: &connections[index].reader) != nil
    else {
      if errno != EAGAIN { end(index) }
      return
    }
    do throws(EngineError) {
      while let response = try connections[index].reader.nextResponse() {
        guard response.id < UInt64(samples.count), samples[Int(response.id)].answered == 0 else {
          fault = fault ?? "an answer to nothing that was asked"
          continue
        }
        let id = Int(response.id)
        samples[id].answered = now
        samples[id].loweredAfter = response.loweredAfter
        samples[id].spent = response.spent
        answered += 1
        let question = questions(of: samples[id].kind)[samples[id].question]
        if let found = question.fault(of: response) {
          fault = fault ?? "\(question.kind) '\(question.text)': \(found)"
        }
      }
    } catch {
      fault = fault ?? error.description
      end(index)
    }
  }
}
