internal import COpportune

/// Closes descriptors. A descriptor is the process's: what any app has on it ends with it, since the number
/// may be another file's afterwards, whatever carries the requests.
///
/// Invariants:
///  - a close goes to the kernel only when nothing is in flight on its descriptor and no inline call is
///    inside its gate;
///  - `inFlight` has exactly the requests whose phase is `inFlight`;
///  - of each class at most ``CloseQueue/limit`` closes are in the kernel;
///  - a close that waits is outstanding, and counts for its app.
///
/// The reactor's alone, but for the gates.
final class DescriptorCloser {
  private let submissions: SubmissionQueue
  private let gates: DescriptorGates
  private var inFlight = RequestsByDescriptor()
  /// Closes that wait, and what sends them.
  private var waiting: [Int32: (app: AppEntry, send: () -> Void)] = [:]
  /// By descriptor: the gate's count of closes with its last.
  private var closedAt: [Int32: UInt64] = [:]
  private var turns = CloseQueue()

  init(_ submissions: SubmissionQueue, _ gates: DescriptorGates) {
    self.submissions = submissions
    self.gates = gates
  }

  // MARK: Requests on descriptors

  func add(_ request: Request) { inFlight.add(request) }

  func remove(_ request: Request) {
    inFlight.remove(request)
    closeIfQuiet(request.call.op.fd)
  }

  /// What is in flight on a descriptor, the latest first.
  func requests(on descriptor: Int32) -> [Request] { inFlight.requests(on: descriptor) }

  /// Whether a close of the descriptor waits.
  func isClosing(_ descriptor: Int32) -> Bool { waiting[descriptor] != nil }

  /// Whether a close of the call's descriptor has begun since the call has.
  func hasClosed(since call: IOCall) -> Bool {
    guard let at = closedAt[call.op.fd] else { return false }
    return call.closesBefore < at
  }

  // MARK: Closes that wait

  /// A close begins; `send` is called when the descriptor is quiet, perhaps at the next ``closeIfQuiet(_:)``.
  func begin(_ descriptor: Int32, of app: AppEntry, send: @escaping () -> Void) {
    assert(waiting[descriptor] == nil)
    closedAt[descriptor] = gates.beginClose(of: descriptor)
    waiting[descriptor] = (app, send)
    submissions.addOutstanding()
    app.closeBegins()
  }

  /// Sends the close that waits for what was on its descriptor, if that is over.
  func closeIfQuiet(_ descriptor: Int32) {
    guard !waiting.isEmpty, let close = waiting[descriptor] else { return }
    guard !gates[descriptor].pointee.isBusy, !inFlight.isBusy(descriptor) else { return }
    waiting[descriptor] = nil
    gates.endClose(of: descriptor)
    submissions.removeOutstanding()
    close.app.closeEnds()
    close.send()
  }

  /// The last inline call has left the descriptor's gate.
  func inlineCallsHaveLeft(_ descriptor: Int32) {
    for other in Array(waiting.keys) where DescriptorGates.share(descriptor, other) { closeIfQuiet(other) }
  }

  // MARK: Closes in the kernel

  /// Sends a close, in its class's turn. Its end is told by ``closeCompleted(as:)``.
  func submit(_ op: opp_ring_op, as ioClass: IOClass) {
    CloseQueue.endLingering(op.fd)
    if let now = turns.begin(op, ioClass) { submissions.submit(now) } else { submissions.addOutstanding() }
  }

  func closeCompleted(as ioClass: IOClass) {
    guard let next = turns.ended(ioClass) else { return }
    submissions.removeOutstanding()  // it does not wait any more
    submissions.submit(next)
  }

  /// Closes a descriptor of the reactor's own.
  func close(_ descriptor: Int32, as ioClass: IOClass, then body: @escaping () -> Void) {
    let call = KernelCall { [self] _, _ in
      closeCompleted(as: ioClass)
      body()
    }
    var op = opp_ring_op(.OPP_RING_CLOSE, descriptor)
    op.tag = call.retainedTag()
    submit(op, as: ioClass)
  }
}
