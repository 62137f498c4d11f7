/// Answers to callers, given at the end of a turn of the reactor.
///
/// Callers are resumed when the reactor has let go of their requests, so that they free them. The allocator's
/// lock for memory of a background thread may be held by that thread while the kernel has stopped it, and the
/// reactor must not wait for it (law 1). For the same reason messages that were heard are freed on another
/// thread.
///
/// Invariants:
///  - a caller is resumed once;
///  - within a turn foreground's callers are resumed first, since each may wake a thread;
///  - a request that is held belongs to a suspended app, and its caller is resumed after that app is.
///
/// The reactor's alone.
final class Replies {
  /// By class.
  private var callers: [[Request.Caller]] = [[], []]
  private var discarded: [Unmanaged<ReactorMessage>] = []
  /// Told with an app's name when the first of its answers is held; nil where nobody wants to know.
  private let reportHeld: (@Sendable (String) -> Void)?

  init(_ configuration: IOConfiguration) {
    reportHeld = configuration.heldCompletions == .report ? configuration.onHeldCompletion : nil
  }

  /// Resumes the request's caller at the end of the turn.
  func answer(_ request: Request, as ioClass: IOClass) {
    if let caller = request.takeCaller() { callers[ioClass.index].append(caller) }
  }

  /// Keeps the answer until the app is resumed.
  func hold(_ request: Request) {
    let app = request.app
    app.hold(request)
    if app.held.count == 1 { report(app) }
  }

  /// Says that something waits for the app's resumption, where that is so.
  func report(_ app: AppEntry) {
    if let reportHeld, !app.held.isEmpty, !app.isTerminated { reportHeld(app.name) }
  }

  /// Has the message freed on another thread.
  func discard(_ message: ReactorMessage) { discarded.append(.passRetained(message)) }

  func send() {
    for index in callers.indices {
      for caller in callers[index] { caller.resume() }
      callers[index].removeAll(keepingCapacity: true)
    }
    guard !discarded.isEmpty else { return }
    nonisolated(unsafe) let list = discarded  // nobody else has these references
    discarded = []
    Task.detached { for message in list { message.release() } }
  }
}
