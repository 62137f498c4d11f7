internal import COpportune
import Glibc
internal import OpportuneBase
import SystemPackage

/// What the watcher of a suspended app's sockets reports. (R-VOIP-01 to R-VOIP-03)
public enum KeepAliveEvent: Sendable, Hashable {
  /// Data, or the peer's end, arrived on a socket of the app. Once per socket and suspension.
  case dataArrived(FileDescriptor)
  /// The app's heartbeat is due.
  case heartbeatDue
}

/// Watches sockets of an app while that is suspended; sends nothing, and wakes nobody but by an event.
///
/// Invariants:
///  - while it is armed, which is while its app is suspended, each socket has a poll in flight or was
///    reported;
///  - a poll's answer counts only while it is the one in `polls`: others were cancelled, or are of an earlier
///    suspension;
///  - once stopped it stays so, and its stream has ended.
///
/// The reactor's alone.
final class Watch {
  struct Socket {
    let number: Int32
    let identity: SocketIdentity

    /// Whether it was not closed other than through the broker.
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
  /// Tells what there is after all before it. Whoever takes events may be of background, and stopped by the
  /// kernel with the stream's lock; this thread must not wait for it (law 1).
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

  /// The app was suspended; perhaps once more, before this thread has heard that it was resumed. What was
  /// reported of the suspension before is then reported anew, and the heartbeat goes on.
  func arm() {
    guard !isStopped else { return }
    // One is another's number by now: nothing can be promised any more.
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

  /// A socket is about to be closed; its number may be another file's afterwards.
  func drop(_ socket: Int32) {
    sockets.removeAll { $0.number == socket }
    if let poll = polls.removeValue(forKey: socket) { submissions.cancel(poll) }
  }

  func stop() {
    guard !isStopped else { return }
    disarm()
    isStopped = true
    if let app, !app.isTerminated {
      for socket in sockets { moderator.moderate(socket.number, of: app) }  // as those that nobody watches
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
    // It was closed behind the broker's back, perhaps while it was polled.
    guard result >= 0, sockets.allSatisfy({ $0.number != number || $0.isThere }) else { return stop() }
    let socket = FileDescriptor(rawValue: number)
    tell { $0.yield(.dataArrived(socket)) }
  }

  private func setHeartbeat() {
    guard let interval else { return }
    dueAt = clock.now &+ interval
    timers.set(.heartbeat(self), at: dueAt)
  }

  /// Whether a heartbeat is due at a time; others were of an earlier suspension.
  func waits(until time: UInt64) -> Bool { isArmed && dueAt == time }

  /// A timer of this watch went off; perhaps one of an earlier suspension.
  func heartbeatIsDue() {
    guard isArmed, clock.now >= dueAt else { return }
    tell { $0.yield(.heartbeatDue) }
    guard let interval else { return }
    // From when it was due, so that lateness does not add up; those that were missed are one.
    dueAt = clock.now &+ interval &- (clock.now - dueAt) % interval
    timers.set(.heartbeat(self), at: dueAt)
  }

  private static let pollIn: UInt32 = 0x1
  private static let pollHangUp: UInt32 = 0x2000
}

extension AppIO {
  /// Keeps sockets of this app alive while it is suspended: they are not dropped from, and what happens to
  /// them is reported, nothing else. While the app runs, nothing is. (R-VOIP-01 to R-VOIP-03)
  ///
  /// - Parameters:
  ///   - sockets: open ones of this app.
  ///   - heartbeat: reported that long after each suspension, and again after each further interval; 1 ms and
  ///     more.
  /// - Returns: the events; ends with the app, when nobody waits for it any more, or when one of the sockets
  ///   turns out to have been closed other than by ``close(_:)``. Events that nobody takes wait.
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

/// Touched on the reactor's thread only.
private final class WatchBox: @unchecked Sendable {
  var watch: Watch?
}
