/// Answers to callers, delivered at the end of a turn of the reactor.
///
/// Callers are resumed after the reactor has released its references to their requests, so that the callers
/// free them. Freeing memory of a background thread may need an allocator lock which that thread holds while
/// the kernel has stopped it; the reactor must not wait for that (law 1). For the same reason handled
/// messages are freed on another thread.
///
/// Invariants:
///  - A caller is resumed once.
///  - Within a turn foreground callers are resumed first, since each resumption may wake a thread.
///  - A held request belongs to a suspended app; its caller is resumed after the app is.
///
/// Reactor's thread only.
final class Replies {
  /// Callers to resume, by class.
  private var callers: [[Request.Caller]] = [[], []]
  private var discarded: [Unmanaged<ReactorMessage>] = []
  /// Called with an app's name when the first of its answers is held; may be nil.
  private let reportHeld: (@Sendable (String) -> Void)?

  init(_ configuration: IOConfiguration) {
    reportHeld = configuration.heldCompletions == .report ? configuration.onHeldCompletion : nil
  }

  /// Resumes the request's caller at the end of the turn.
  func answer(_ request: Request, as ioClass: IOClass) {
    if let caller = request.takeCaller() { callers[ioClass.index].append(caller) }
  }

  /// Holds the answer until the app is resumed.
  func hold(_ request: Request) {
    let app = request.app
    app.hold(request)
    if app.held.count == 1 { report(app) }
  }

  /// Reports the app, if an answer of it is held.
  func report(_ app: AppEntry) {
    if let reportHeld, !app.held.isEmpty, !app.isTerminated { reportHeld(app.name) }
  }

  /// Frees the message on another thread.
  func discard(_ message: ReactorMessage) { discarded.append(.passRetained(message)) }

  func send() {
    for index in callers.indices {
      for caller in callers[index] { caller.resume() }
      callers[index].removeAll(keepingCapacity: true)
    }
    guard !discarded.isEmpty else { return }
    nonisolated(unsafe) let list = discarded  // no other thread has these references
    discarded = []
    Task.detached { for message in list { message.release() } }
  }
}
