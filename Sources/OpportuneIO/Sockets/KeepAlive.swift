internal import COpportune
import Glibc
internal import OpportuneBase
import SystemPackage

/// An event on the sockets of a suspended app. (R-VOIP-01 to R-VOIP-03)
public enum KeepAliveEvent: Sendable, Hashable {
  /// Data, or the peer's end of stream, arrived on a socket of the app. Reported once for each socket and
  /// suspension.
  case dataArrived(FileDescriptor)
  /// The app's heartbeat is due.
  case heartbeatDue
}

/// Watches sockets of an app while the app is suspended. It sends nothing, and wakes no thread except by an
/// event.
///
/// Invariants:
///  - While it is armed, which is while its app is suspended, each socket has a poll in flight or was
///    reported.
///  - A poll's result counts only while that poll is in `polls`: others were cancelled, or belong to an
///    earlier suspension.
///  - Once stopped it stays stopped, and its stream has ended.
///
/// Reactor's thread only.
final class Watch {
  struct Socket {
    let number: Int32
    let identity: SocketIdentity

    /// Whether the number still belongs to the same socket, so that no close has bypassed the broker.
    var isThere: Bool { SocketIdentity(of: number) == identity }
  }

  private let submissions: SubmissionQueue
  private let timers: Timers
  private let clock: ReactorClock
  private let moderator: SocketModerator
  private weak var app: AppEntry?
  private var sockets: [Socket]
  private let interval: UInt64?
  private let events: AsyncStream<KeepAliveEvent>.Continuation
  /// The task that delivers the last event; the next delivery awaits it. Delivery is not done on this thread:
  /// the consumer may be a background thread that holds the stream's lock while the kernel has stopped it
  /// (law 1).
  private var lastReport: Task<Void, Never>?
  private var polls: [Int32: KernelCall] = [:]
  private var isArmed = false
  private(set) var isStopped = false
  private var dueAt = UInt64.max

  init(
    of app: AppEntry, sockets: [Socket], interval: UInt64?, events: AsyncStream<KeepAliveEvent>.Continuation,
    _ submissions: SubmissionQueue, _ timers: Timers, _ clock: ReactorClock, _ moderator: SocketModerator
  ) {
    self.submissions = submissions
    self.timers = timers
    self.clock = clock
    self.moderator = moderator
    self.app = app
    self.sockets = sockets
    self.interval = interval
    self.events = events
  }

  func watches(_ socket: Int32) -> Bool { !isStopped && sockets.contains { $0.number == socket } }

  /// The app was suspended; perhaps again, before this thread has handled its resumption. Then events that
  /// were reported in the earlier suspension are reported again, and the heartbeat continues.
  func arm() {
    guard !isStopped else { return }
    // A number belongs to another socket by now: the watch can guarantee nothing any more.
    guard sockets.allSatisfy(\.isThere) else { return stop() }
    for socket in sockets where polls[socket.number] == nil { poll(socket.number) }
    guard !isArmed else { return }
    isArmed = true
    setHeartbeat()
  }

  /// The app was resumed.
  func disarm() {
    isArmed = false
    dueAt = .max
    for poll in polls.values { submissions.cancel(poll) }
    polls = [:]
  }

  /// A socket is about to be closed; its number may belong to another file afterwards.
  func drop(_ socket: Int32) {
    sockets.removeAll { $0.number == socket }
    if let poll = polls.removeValue(forKey: socket) { submissions.cancel(poll) }
  }

  func stop() {
    guard !isStopped else { return }
    disarm()
    isStopped = true
    if let app, !app.isTerminated {
      for socket in sockets { moderator.moderate(socket.number, of: app) }  // like unwatched ones
    }
    tell { $0.finish() }
  }

  private func tell(_ body: @escaping @Sendable (AsyncStream<KeepAliveEvent>.Continuation) -> Void) {
    lastReport = Task.detached { [events, lastReport] in
      await lastReport?.value
      body(events)
    }
  }

  private func poll(_ socket: Int32) {
    let call = KernelCall { [self] call, result in arrived(call, socket, result) }
    polls[socket] = call
    var op = opp_ring_op(.OPP_RING_POLL, socket)
    op.flags = Self.pollIn | Self.pollHangUp
    op.tag = call.retainedTag()
    submissions.submit(op)
  }

  private func arrived(_ call: KernelCall, _ number: Int32, _ result: Int32) {
    guard isArmed, polls[number] === call else { return }
    polls[number] = nil
    // The socket was closed without the broker, perhaps while it was polled.
    guard result >= 0, sockets.allSatisfy({ $0.number != number || $0.isThere }) else { return stop() }
    let socket = FileDescriptor(rawValue: number)
    tell { $0.yield(.dataArrived(socket)) }
  }

  private func setHeartbeat() {
    guard let interval else { return }
    dueAt = clock.now &+ interval
    timers.set(.heartbeat(self), at: dueAt)
  }

  /// Whether a heartbeat is due at this time; other timers belong to an earlier suspension.
  func waits(until time: UInt64) -> Bool { isArmed && dueAt == time }

  /// A timer of this watch has fired; it may belong to an earlier suspension.
  func heartbeatIsDue() {
    guard isArmed, clock.now >= dueAt else { return }
    tell { $0.yield(.heartbeatDue) }
    guard let interval else { return }
    // Counted from the due time, so that delays do not add up. Missed heartbeats count as one.
    dueAt = clock.now &+ interval &- (clock.now - dueAt) % interval
    timers.set(.heartbeat(self), at: dueAt)
  }

  private static let pollIn: UInt32 = 0x1
  private static let pollHangUp: UInt32 = 0x2000
}

extension AppIO {
  /// Keeps sockets of this app alive while it is suspended: their packets are not dropped, and events on them
  /// are reported. While the app runs, nothing is reported. (R-VOIP-01 to R-VOIP-03)
  ///
  /// - Parameters:
  ///   - sockets: open sockets of this app.
  ///   - heartbeat: the time from each suspension to the first heartbeat, and between heartbeats; at least 1
  ///     ms.
  /// - Returns: the events; pending events are buffered. The stream ends with the app, when it is no longer
  ///   consumed, or when one of the sockets turns out to have been closed other than by ``close(_:)``.
  /// - Throws: ``IOError``: `configuration`; `system` with `badFileDescriptor` where one is not open.
  public func keepAlive(
    _ sockets: [FileDescriptor], heartbeat: Duration? = nil
  ) throws(IOError) -> AsyncStream<KeepAliveEvent> {
    if let heartbeat { try require(heartbeat, in: .milliseconds(1) ... .seconds(86_400), "heartbeat") }
    var watched: [Watch.Socket] = []
    for socket in sockets {
      guard let identity = SocketIdentity(of: socket.rawValue) else {
        throw IOError(
          .system(.badFileDescriptor), "keep-alive of descriptor \(socket.rawValue), which is not open")
      }
      watched.append(Watch.Socket(number: socket.rawValue, identity: identity))
    }
    let (stream, continuation) = AsyncStream.makeStream(of: KeepAliveEvent.self)
    let (entry, box) = (entry, WatchBox())
    continuation.onTermination = { [reactor] _ in reactor.post(Control { _ in box.watch?.stop() }) }
    reactor.post(
      Control(refused: { continuation.finish() }) { [watched] reactor in
        box.watch = reactor.watch(watched, of: entry, every: heartbeat?.unsignedNanoseconds, continuation)
        if box.watch == nil { continuation.finish() }
      })
    return stream
  }
}

/// Accessed on the reactor's thread only.
private final class WatchBox: @unchecked Sendable {
  var watch: Watch?
}
