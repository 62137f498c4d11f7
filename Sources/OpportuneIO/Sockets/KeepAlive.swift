internal import COpportune
import Glibc
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
/// The reactor thread's alone. While the app is suspended a poll request is in flight for each socket.
final class Watch {
  struct Socket {
    let number: Int32
    let identity: SocketIdentity

    /// Whether it was not closed other than through the broker.
    var isThere: Bool { SocketIdentity(of: number) == identity }
  }

  private weak var app: AppEntry?
  private var sockets: [Socket]
  private let interval: UInt64?
  private let events: AsyncStream<KeepAliveEvent>.Continuation
  /// Tells what there is after all before it. Whoever takes events may be of background, and stopped by the kernel with the
  /// stream's lock; this thread must not wait for it (law 1).
  private var lastReport: Task<Void, Never>?
  private var polls: [Int32: Poll] = [:]
  private var isArmed = false
  private(set) var isStopped = false
  private var dueAt = UInt64.max

  init(
    of app: AppEntry, sockets: [Socket], interval: UInt64?, events: AsyncStream<KeepAliveEvent>.Continuation
  ) {
    self.app = app
    self.sockets = sockets
    self.interval = interval
    self.events = events
  }

  func watches(_ socket: Int32) -> Bool { !isStopped && sockets.contains { $0.number == socket } }

  /// The app was suspended; perhaps once more, before this thread has heard that it was resumed. What was reported of the
  /// suspension before is then reported anew, and the heartbeat goes on.
  func arm(at reactor: Reactor) {
    guard !isStopped else { return }
    // One is another's number by now: nothing can be promised any more.
    guard sockets.allSatisfy(\.isThere) else { return stop(at: reactor) }
    for socket in sockets where polls[socket.number] == nil { poll(socket.number, at: reactor) }
    guard !isArmed else { return }
    isArmed = true
    setHeartbeat(at: reactor)
  }

  /// The app was resumed.
  func disarm(at reactor: Reactor) {
    isArmed = false
    dueAt = .max
    for poll in polls.values { reactor.cancelInKernel(poll) }
    polls = [:]
  }

  /// A socket is about to be closed; its number may be another file's afterwards.
  func drop(_ socket: Int32, at reactor: Reactor) {
    sockets.removeAll { $0.number == socket }
    if let poll = polls.removeValue(forKey: socket) { reactor.cancelInKernel(poll) }
  }

  func stop(at reactor: Reactor) {
    guard !isStopped else { return }
    disarm(at: reactor)
    isStopped = true
    if let app, !app.isTerminated {
      for socket in sockets { reactor.moderate(socket.number, of: app) }  // as those that nobody watches
    }
    tell { $0.finish() }
  }

  private func tell(_ body: @escaping @Sendable (AsyncStream<KeepAliveEvent>.Continuation) -> Void) {
    lastReport = Task.detached { [events, lastReport] in
      await lastReport?.value
      body(events)
    }
  }

  private func poll(_ socket: Int32, at reactor: Reactor) {
    let poll = Poll(self, socket)
    polls[socket] = poll
    var op = opp_ring_op()
    op.code = UInt8(opp_ring_code.OPP_RING_POLL.rawValue)
    op.fd = socket
    op.flags = Self.pollIn | Self.pollHangUp
    op.tag = UInt64(UInt(bitPattern: Unmanaged<Message>.passRetained(poll).toOpaque()))
    reactor.prepare(op)
  }

  fileprivate func arrived(_ poll: Poll, _ result: Int32, at reactor: Reactor) {
    // Another's place: it was cancelled, or the socket is polled anew since.
    guard isArmed, polls[poll.socket] === poll else { return }
    polls[poll.socket] = nil
    // It was closed behind the broker's back, perhaps while it was polled.
    guard result >= 0, sockets.allSatisfy({ $0.number != poll.socket || $0.isThere }) else { return stop(at: reactor) }
    let socket = FileDescriptor(rawValue: poll.socket)
    tell { $0.yield(.dataArrived(socket)) }
  }

  private func setHeartbeat(at reactor: Reactor) {
    guard let interval else { return }
    dueAt = reactor.now &+ interval
    reactor.setTimer(.heartbeat(self), at: dueAt)
  }

  /// Whether a heartbeat is due at a time; others were of an earlier suspension.
  func waits(until time: UInt64) -> Bool { isArmed && dueAt == time }

  /// A timer of this watch went off; perhaps one of an earlier suspension.
  func heartbeatIsDue(at reactor: Reactor) {
    guard isArmed, reactor.now >= dueAt else { return }
    tell { $0.yield(.heartbeatDue) }
    guard let interval else { return }
    // From when it was due, so that lateness does not add up; those that were missed are one.
    dueAt = reactor.now &+ interval &- (reactor.now - dueAt) % interval
    reactor.setTimer(.heartbeat(self), at: dueAt)
  }

  private static let pollIn: UInt32 = 0x1
  private static let pollHangUp: UInt32 = 0x2000
}

/// What a poll request's tag names.
final class Poll: Message {
  private let watch: Watch
  let socket: Int32

  fileprivate init(_ watch: Watch, _ socket: Int32) {
    self.watch = watch
    self.socket = socket
  }

  func arrived(_ result: Int32, at reactor: Reactor) { watch.arrived(self, result, at: reactor) }
}

extension AppIO {
  /// Keeps sockets of this app alive while it is suspended: they are not dropped from, and what happens to them is
  /// reported, nothing else. While the app runs, nothing is. (R-VOIP-01 to R-VOIP-03)
  ///
  /// - Parameters:
  ///   - sockets: open ones of this app.
  ///   - heartbeat: reported that long after each suspension, and again after each further interval; 1 ms and more.
  /// - Returns: the events; ends with the app, when nobody waits for it any more, or when one of the sockets turns out to
  ///   have been closed other than by ``close(_:)``. Events that nobody takes wait.
  /// - Throws: ``IOError``: `configuration`; `system` with `badFileDescriptor` where one is not open.
  public func keepAlive(
    _ sockets: [FileDescriptor], heartbeat: Duration? = nil
  ) throws(IOError) -> AsyncStream<KeepAliveEvent> {
    if let heartbeat { try require(heartbeat, in: .milliseconds(1) ... .seconds(86_400), "heartbeat") }
    var watched: [Watch.Socket] = []
    for socket in sockets {
      guard let identity = SocketIdentity(of: socket.rawValue) else {
        throw IOError(.system(.badFileDescriptor), "keep-alive of descriptor \(socket.rawValue), which is not open")
      }
      watched.append(Watch.Socket(number: socket.rawValue, identity: identity))
    }
    let (stream, continuation) = AsyncStream.makeStream(of: KeepAliveEvent.self)
    let slot = slot
    let box = WatchBox()
    continuation.onTermination = { [reactor] _ in reactor.post(Control { box.watch?.stop(at: $0) }) }
    reactor.post(
      Control(refused: { continuation.finish() }) { [watched] reactor in
        guard let app = reactor.apps[slot], !app.isTerminated else { return continuation.finish() }
        let watch = Watch(of: app, sockets: watched, interval: heartbeat?.nanoseconds, events: continuation)
        box.watch = watch
        app.watches.removeAll { $0.isStopped }
        app.watches.append(watch)
        for socket in watched { reactor.moderate(socket.number, of: app) }
        if app.state == .suspended { watch.arm(at: reactor) }
      })
    return stream
  }
}

/// Touched on the reactor thread only.
private final class WatchBox: @unchecked Sendable {
  var watch: Watch?
}
