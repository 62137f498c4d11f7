internal import COpportune

/// Closes descriptors. A descriptor belongs to the process. All requests of all apps on it end before its
/// close, since the number may belong to another file afterwards.
///
/// Invariants:
///  - A close goes to the kernel only when nothing is in flight on its descriptor and no inline call is
///    inside its gate.
///  - `inFlight` contains exactly the requests whose phase is `inFlight`, but for closes: the kernel frees
///    the number first, however long the rest takes, and the next file may have it by then.
///  - At most ``CloseQueue/Kind/limit`` closes of each kind are in the kernel.
///  - A waiting close is outstanding, and counts for its app.
///
/// Reactor's thread only, except for the gates.
final class DescriptorCloser {
  private let submissions: SubmissionQueue
  private let gates: DescriptorGates
  private let apps: AppTable
  private var inFlight = RequestsByDescriptor()
  /// Waiting closes by descriptor, with the function that sends them.
  private var waiting: [Int32: (app: AppEntry, send: () -> Void)] = [:]
  /// By descriptor: the gate's count of closes at the descriptor's last close.
  private var closedAt: [Int32: UInt64] = [:]
  private var turns = CloseQueue()

  init(_ submissions: SubmissionQueue, _ gates: DescriptorGates, _ apps: AppTable) {
    self.submissions = submissions
    self.gates = gates
    self.apps = apps
  }

  // MARK: Requests on descriptors

  func add(_ request: Request) {
    if !request.call.isClose { inFlight.add(request) }
  }

  func remove(_ request: Request) {
    guard !request.call.isClose else { return }
    inFlight.remove(request)
    closeIfQuiet(request.call.op.fd)
  }

  /// The requests in flight on a descriptor, the latest first.
  func requests(on descriptor: Int32) -> [Request] { inFlight.requests(on: descriptor) }

  /// Whether a close of the descriptor waits.
  func isClosing(_ descriptor: Int32) -> Bool { waiting[descriptor] != nil }

  /// Whether a close of the call's descriptor has begun since the call began.
  func hasClosed(since call: IOCall) -> Bool {
    guard let at = closedAt[call.op.fd] else { return false }
    return call.closesBefore < at
  }

  // MARK: Waiting closes

  /// Begins a close. `send` is called when the descriptor is quiet: now, or in a later ``closeIfQuiet(_:)``.
  func begin(_ descriptor: Int32, of app: AppEntry, send: @escaping () -> Void) {
    assert(waiting[descriptor] == nil)
    closedAt[descriptor] = gates.beginClose(of: descriptor)
    waiting[descriptor] = (app, send)
    submissions.addOutstanding()
    app.closeBegins()
    apps.drop(descriptor)
  }

  /// Sends the waiting close of the descriptor, if nothing is in flight on it any more.
  func closeIfQuiet(_ descriptor: Int32) {
    guard !waiting.isEmpty, let close = waiting[descriptor] else { return }
    guard !gates[descriptor].pointee.isBusy, !inFlight.isBusy(descriptor) else { return }
    waiting[descriptor] = nil
    gates.endClose(of: descriptor)
    submissions.removeOutstanding()
    close.app.closeEnds()
    close.send()
  }

  /// Called when the last inline call has left the descriptor's gate.
  func inlineCallsHaveLeft(_ descriptor: Int32) {
    for other in Array(waiting.keys) where DescriptorGates.share(descriptor, other) { closeIfQuiet(other) }
  }

  // MARK: Closes in the kernel

  /// Submits a close, in its kind's turn. The caller reports its end by ``closeCompleted(as:)``.
  func submit(_ op: opp_ring_op, as kind: CloseQueue.Kind) {
    CloseQueue.endLingering(op.fd)
    if let now = turns.begin(op, kind) { submissions.submit(now) } else { submissions.addOutstanding() }
  }

  func closeCompleted(as kind: CloseQueue.Kind) {
    guard let next = turns.ended(kind) else { return }
    submissions.removeOutstanding()  // it waits no longer
    submissions.submit(next)
  }

  /// Closes a descriptor without a request, such as one that arrived after its app's end.
  func close(_ descriptor: Int32, as ioClass: IOClass, then body: @escaping () -> Void) {
    let kind = CloseQueue.Kind(descriptor, ioClass)
    let call = KernelCall { [self] _, _ in
      closeCompleted(as: kind)
      body()
    }
    var op = opp_ring_op(.OPP_RING_CLOSE, descriptor)
    op.tag = call.retainedTag()
    submit(op, as: kind)
  }
}
