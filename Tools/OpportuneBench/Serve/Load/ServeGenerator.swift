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
}

/// All clients, on one thread: sends at the intended times, late or not, and stamps answers as they come. In
/// a real-time class where the machine allows that, so that it does not wait for what it measures.
final class ServeGenerator {
  private let plan: ServePlan
  private let questions: ServeQuestions
  private var connections: [Connection] = []
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
    var isOpen = true
  }

  /// Connects all clients.
  init(_ plan: ServePlan, _ questions: ServeQuestions, socket path: String) throws {
    self.plan = plan
    self.questions = questions
    for _ in 0..<plan.connections {
      let socket = try UnixSocket.connect(to: path)
      _ = fcntl(socket, F_SETFL, O_NONBLOCK)
      connections.append(Connection(socket: socket))
    }
  }

  deinit { for connection in connections { close(connection.socket) } }

  /// Sends what is intended until the plan's end, and waits for answers until `limit` after it.
  func run(from begin: Nanoseconds, limit: Nanoseconds, isInterrupted: () -> Bool) {
    sharpenTimersOfCaller()
    var streams = plan.streams()
    while let next = Self.earliest(streams), !isInterrupted() {
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
    streams.indices.filter { streams[$0].schedule.next < streams[$0].end }
      .min { streams[$0].schedule.next < streams[$1].schedule.next }
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
      connections[index].isOpen = false
    }
  }

  /// Takes what comes until then; once what is there has been taken.
  private func receive(until end: Nanoseconds) {
    var polled = connections.map { connection in
      pollfd(
        fd: connection.isOpen ? connection.socket : -1,
        events: Int16(POLLIN) | (connection.unsent.isEmpty ? 0 : Int16(POLLOUT)), revents: 0)
    }
    let ready = opp_bench_poll(&polled, UInt32(polled.count), end)
    guard ready > 0 else { return }
    let now = SystemClock.now()
    for index in polled.indices where polled[index].revents != 0 {
      if polled[index].revents & Int16(POLLOUT) != 0 { flush(index) }
      if polled[index].revents & ~Int16(POLLOUT) != 0 { take(index, now) }
    }
  }

  private func take(_ index: Int, _ now: Nanoseconds) {
    guard UnixSocket.receive(from: connections[index].socket, into: &connections[index].reader) != nil else {
      if errno != EAGAIN { connections[index].isOpen = false }
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
        answered += 1
        let question = questions(of: samples[id].kind)[samples[id].question]
        if let found = question.fault(of: response) {
          fault = fault ?? "\(question.kind) '\(question.text)': \(found)"
        }
      }
    } catch {
      fault = fault ?? error.description
      connections[index].isOpen = false
    }
  }
}
