internal import OpportuneBase
import OpportuneScheduler
import Synchronization

/// A receive of an active app that waits for its descriptor where the workers of its scheduler wait.
///
/// It is armed in the descriptor's word. Whoever takes it out of there has claimed it, and resumes it, once:
/// a worker that harvests the event, a cancellation, the end of the scheduler; or the reactor, at a close and
/// at the end of the app. A resume promises nothing: its task tries to receive again.
///
/// Invariants:
///  - It is armed only while its task is suspended, which retains it.
///  - Its task is resumed once for each time that it was armed, by the thread that has claimed it, or by the
///    reactor to which that thread has handed it, since the app was suspended.
final class ReceiveWait: ReadinessDelegate, @unchecked Sendable {
  // Sendable: `continuation` and `done` are written before it is armed, and read by who has claimed it; the
  // word of the descriptor orders the two. `request` is written by the reactor before it resumes the task.
  let call: IOCall
  private let readiness: DescriptorReadiness
  /// In the descriptor's word while this is armed. Set once.
  private lazy var waiter = ReadinessWaiter(of: self)
  private var continuation: UnsafeContinuation<Void, Never>?
  /// Bytes that were moved before.
  private(set) var done = 0
  private let isCancelled = Atomic<Bool>(false)
  /// [resumed] Stored with release by who resumes, loaded with acquire by the task: the runtime orders the
  /// two as well, but ThreadSanitizer does not see that where the task has not suspended yet.
  private let resumes = Atomic<UInt64>(0)
  /// What the reactor has made of it.
  private var request: Request?

  init(_ call: IOCall, _ readiness: DescriptorReadiness) {
    self.call = call
    self.readiness = readiness
    _ = waiter
  }

  private var descriptor: Int32 { call.op.fd }
  private var entry: AppEntry { call.app.entry }
  private var tag: UInt16 { Self.tag(of: entry) }

  /// Apps may share one; who claims by it looks at the app as well.
  private static func tag(of app: AppEntry) -> UInt16 { UInt16(truncatingIfNeeded: app.slot) }

  /// The result of a wait.
  enum Result {
    /// Try to receive again.
    case again
    /// It does not wait here: the reactor carries it out.
    case refused
    /// Its task was cancelled.
    case cancelled
    /// The reactor has ended it, and has given back its buffers.
    case ended(Request)
  }

  /// Waits for the descriptor. The calling task has tried to receive in vain.
  func wait(done: Int) async -> Result {
    self.done = done
    request = nil
    var arming = DescriptorReadiness.Arming.refused
    await withTaskCancellationHandler {
      await withUnsafeContinuation { continuation in
        self.continuation = continuation
        arming = readiness.arm(waiter, for: descriptor, tag: tag)
        guard case .armed = arming else { return continuation.resume() }
        // Who cancels or ends has published that before it looked for this wait; see readiness.c, "Against an
        // end". If it came too early to find it, it is seen here. The descriptor's number may have been
        // closed and opened anew before it was armed; the word has shown that.
        guard isOver, readiness.disarm(waiter, for: descriptor, tag: tag) else { return }
        answer()
      }
    } onCancel: {
      isCancelled.store(true, ordering: .sequentiallyConsistent)
      if readiness.disarm(waiter, for: descriptor, tag: tag) { becameReady() }
    }
    _ = resumes.load(ordering: .acquiring)  // [resumed]
    if let request { if !request.isPending { return .ended(request) } }
    if isCancelled.load(ordering: .relaxed) { return .cancelled }
    if case .refused = arming { return .refused }
    return isOver ? .refused : .again
  }

  /// Whether it must not wait any more.
  private var isOver: Bool {
    isCancelled.load(ordering: .sequentiallyConsistent) || entry.inline.gate.closesNow != 0
      || call.app.reactor.gates[descriptor].pointee.closes != call.closesBefore
  }

  // MARK: Who has claimed it

  /// Resumes the task; but not before its app, if that is suspended: the reactor keeps it until then, and
  /// reports it, like a completion that comes then.
  func becameReady() {
    guard entry.source.view.state == .suspended else { return answer() }
    call.app.reactor.post(Control(refused: { self.answer() }) { $0.path.hold(self) })
  }

  /// The request in whose form the reactor ends it, or holds it.
  func toRequest() -> Request {
    let request = Request(call, done: done)
    request.setCaller(.wait(self))
    self.request = request
    return request
  }

  /// Resumes the task.
  func answer() {
    // Read before the count is published: from then on its task may wait anew, and write it.
    let continuation = continuation
    resumes.wrappingAdd(1, ordering: .releasing)  // [resumed]
    continuation?.resume()
  }

  /// At the end of the app, whose gate is closed: the reactor's thread claims its waits.
  static func claimAll(of app: AppEntry, _ body: (ReceiveWait) -> Void) {
    app.readiness?.claim(tag: tag(of: app)) { waiter in
      guard let wait = waiter.delegate as? ReceiveWait else { return waiter.delegate.becameReady() }
      if wait.entry === app { body(wait) } else { wait.becameReady() }
    }
  }
}

/// The descriptors that the workers of schedulers watch for the broker: sockets that it has made for active
/// apps. It closes them itself, so it knows until when a number means the same socket.
///
/// Reactor's thread only: it alone adds and removes, and is of an ordinary class, or turns this off.
final class WatchedDescriptors {
  private var isOn: Bool
  private var readinesses: [Int32: [DescriptorReadiness]] = [:]

  init(isOn: Bool) { self.isOn = isOn }

  /// Nothing is watched: the thread is of the background's class, and would keep the epoll's mutex, for which
  /// workers of the foreground wait. Before the first socket.
  func turnOff() { isOn = false }

  /// Watches a socket of the app from now on, if the app is active.
  func add(_ descriptor: Int32, of app: AppEntry) {
    guard isOn, let readiness = app.readiness, app.state(on: .network) == .active, !app.isTerminated,
      app.descriptors.hasSocket(descriptor),
      !(readinesses[descriptor]?.contains { $0 === readiness } ?? false)
    else { return }
    if readiness.add(descriptor) { readinesses[descriptor, default: []].append(readiness) }
  }

  /// Watches it no more: its close begins, or its number belongs to another socket by now. Returns the waits
  /// for it, which the caller resumes.
  func remove(_ descriptor: Int32) -> [ReceiveWait] {
    guard let known = readinesses.removeValue(forKey: descriptor) else { return [] }
    return known.compactMap { $0.remove(descriptor)?.delegate as? ReceiveWait }
  }
}
