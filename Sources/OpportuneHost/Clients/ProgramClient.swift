internal import COpportuneHost
import Foundation
internal import Glibc
internal import OpportuneApps

/// The connection of a program that cooperates: what it is asked, one question after another, and what it
/// asks for.
///
/// Nothing here blocks: what it says is read as far as it is there, what it is told is kept up to a limit.
/// Used by one thread at a time. The descriptor is closed by ``close()`` alone.
final class ProgramClient {
  /// The longest line of a program, in bytes.
  static let longestLine = 4096
  /// The most lines of a program within a second.
  static let mostLines = 256
  static let mostTasks = 16
  static let longestTaskName = 100
  /// Questions that wait; who is asked more has answered none.
  static let mostQuestions = 32
  /// Descriptors whose lines are under way.
  static let mostPassed = 2 * Int(OPP_HOST_PASSED)
  /// What it has not read, in bytes.
  static let mostUnsent = 64 * 1024

  let descriptor: Int32
  let pid: pid_t
  /// Whether it saves its state when asked, and may be ended then and started anew with it.
  let restarts: Bool
  private let grace: Duration
  private var unread: [UInt8] = []
  private var unsent: [UInt8] = []
  private var lines = (second: Moment.zero, count: 0)
  private var lastID: UInt64 = 0

  /// The first has been asked.
  private(set) var questions: [(id: UInt64, question: ClientQuestion)] = []
  /// When the first is to be answered.
  private(set) var deadline: Moment?
  /// What it does before it may be suspended, with what each is for.
  var tasks: [Int64: String] = [:]
  /// What is kept alive of it while it is suspended.
  private(set) var sockets: [Int64: KeptSocket] = [:]
  /// Those inside of it, by the numbers that it has given them.
  var inner: [Int64: InnerApp] = [:]
  /// What it is asked once it has come to the front.
  var forward: ClientQuestion?
  /// Whether it is asked for heartbeats while it is suspended.
  var hasHeartbeat = false
  /// Descriptors that have come, and whose lines have not.
  private var passed: [Int32] = []
  /// It is to be suspended, or ended with its state saved.
  var farewell: Farewell?
  /// It is not to be read from any more; why, for people.
  private(set) var failure: String?

  struct Farewell {
    /// When its tasks are over.
    let tasksEnd: Moment
    /// Whether it saves its state and is ended, in place of being stopped.
    let saves: Bool
    /// Whether it was told that it stops, or asked for its state.
    var isTold = false
    /// Tasks that were told of their end.
    var expired: Set<Int64> = []
  }

  init(_ descriptor: Int32, pid: pid_t, restarts: Bool, grace: Duration) {
    self.descriptor = descriptor
    self.pid = pid
    self.restarts = restarts
    self.grace = grace
  }

  /// Whether it is to be polled for room as well.
  var hasUnsent: Bool { !unsent.isEmpty }

  // MARK: Questions

  func ask(_ question: ClientQuestion, now: Moment) {
    guard questions.count < Self.mostQuestions else { return fail("it has not answered") }
    lastID += 1
    questions.append((lastID, question))
    if questions.count == 1 { askFirst(now) }
  }

  private func askFirst(_ now: Moment) {
    deadline = nil
    // Who is left hears of nothing more but that.
    guard failure == nil, let (id, question) = questions.first else { return }
    deadline = now + grace
    var told = ClientTold(question.name)
    (told.id, told.grace) = (id, grace / .seconds(1))
    (told.launch, told.task, told.file) = (question.launch, question.task, question.file)
    (told.socket, told.bytes) = (question.arrival?.socket, question.arrival?.bytes)
    (told.kind, told.payload) = (question.message?.kind, question.message?.payloadText)
    told.number = question.inner
    told.origin = question.message?.origin == .local ? .local : nil
    tell(told)
  }

  /// - Returns: what was answered; `nil`: that was not asked.
  func take(_ answer: UInt64, now: Moment) -> ClientQuestion? {
    guard let first = questions.first, first.id == answer else { return nil }
    questions.removeFirst()
    askFirst(now)
    return first.question
  }

  /// As if it had answered; nothing more is asked.
  func takeWithoutAnswer() -> ClientQuestion? {
    deadline = nil
    return questions.isEmpty ? nil : questions.removeFirst().question
  }

  // MARK: Sockets

  /// - Returns: the descriptor that came for the next line that needs one; `nil`: none did.
  func takePassed() -> Int32? { passed.isEmpty ? nil : passed.removeFirst() }

  func keepAlive(_ socket: KeptSocket) { sockets[socket.number] = socket }

  func letGo(_ number: Int64) { sockets.removeValue(forKey: number)?.close() }

  // MARK: Bytes

  func tell(_ told: ClientTold) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    guard let line = try? encoder.encode(told) else { return fail("a line could not be written") }
    tell(Array(line))
  }

  func tell(_ line: [UInt8]) {
    guard unsent.count + line.count < Self.mostUnsent else { return fail("it does not read") }
    unsent += line + [10]
    send()
  }

  func send() {
    while !unsent.isEmpty {
      let count = Glibc.send(descriptor, unsent, unsent.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT))
      if count < 0, errno == EINTR { continue }
      if count < 0, errno == EAGAIN { return }
      guard count > 0 else { return fail("it has closed the connection") }
      unsent.removeFirst(count)
    }
  }

  /// What it has said by now, a part of it where that is much: others have their turn.
  func read(now: Moment) -> [ClientSaid] {
    var bytes = [UInt8](repeating: 0, count: Self.longestLine)
    var (new, found) = ([Int32](repeating: -1, count: Int(OPP_HOST_PASSED)), 0)
    let count = opp_host_receive(descriptor, &bytes, bytes.count, &new, &found)
    passed += new[..<found]
    if count == -Int(EAGAIN) || count == -Int(EINTR) { return [] }
    if count <= 0 {
      fail(count == -Int(EMSGSIZE) ? "its descriptors could not be taken" : "it has closed the connection")
      return []
    }
    unread += bytes[..<count]
    var result: [ClientSaid] = []
    while failure == nil, let end = unread.firstIndex(of: 10) {
      let line = unread[..<end]
      if now - lines.second >= .seconds(1) { lines = (now, 0) }
      lines.count += 1
      if line.count > Self.longestLine {
        fail("a line is longer than \(Self.longestLine) bytes")
      } else if lines.count > Self.mostLines {
        fail("it has sent more than \(Self.mostLines) lines in a second")
      } else if let said = ClientSaid.read(line) {
        result.append(said)
      } else {
        fail(
          "a line is none of answer, begin, end, keepAlive, letGo, heartbeat, schedule, cancel, cancelAll, "
            + "pending and app")
      }
      unread.removeFirst(end + 1)
    }
    if unread.count > Self.longestLine { fail("a line is longer than \(Self.longestLine) bytes") }
    if passed.count > Self.mostPassed { fail("descriptors have come without their lines") }
    return result
  }

  /// It is cut off next; the first reason counts.
  func fail(_ reason: String) { if failure == nil { failure = reason } }

  /// Tells it why, as far as it reads.
  func close(_ reason: String) {
    var told = ClientTold("left")
    told.reason = reason
    if unsent.count < Self.mostUnsent { tell(told) }
    for one in passed { Glibc.close(one) }
    for one in sockets.values { one.close() }
    (passed, sockets) = ([], [:])
    Glibc.close(descriptor)
  }
}
