internal import COpportune
import Glibc
import OpportuneScheduler
import Synchronization

/// A call on its way: from the caller's thread to the reactor, to the kernel, and back.
///
/// The caller posts it. From then on it belongs to the reactor's thread, until the caller is resumed and
/// reads ``value()``. The tag that the kernel carries retains it, so no part of it is freed before the last
/// completion.
///
/// Invariants:
///  - The phase changes only by the transitions below, each of which asserts the phase before.
///  - It holds a grant of the I/O scheduler, and counts with a limiter, only in flight.
///  - Its caller is resumed once. Its buffers are released once, when it ends.
final class Request: ReactorMessage, @unchecked Sendable {
  // Sendable: see above.
  typealias Ticket = IOScheduler<Request>.Ticket
  typealias Grant = IOScheduler<Request>.Grant

  /// The caller that waits for the answer.
  enum Caller {
    case task(UnsafeContinuation<Void, Never>)
    /// A blocked thread whose memory is borrowed. It continues only when the kernel has ended the request,
    /// whatever ended the request before. The semaphore is invalid from then on.
    case thread(UnsafeMutablePointer<sem_t>)
    /// A task that waited for its descriptor elsewhere.
    case wait(ReceiveWait)

    func resume() {
      switch self {
      case .task(let continuation): continuation.resume()
      case .wait(let wait): wait.answer()
      case .thread(let semaphore): sem_post(semaphore)
      }
    }
  }

  enum Outcome {
    case pending
    case value(Int)
    case failed(IOError.Code)
  }

  enum Phase {
    /// Being made, or posted and not handled yet. The reason is set if the request must not begin.
    case posted(endsBecause: IOError.Code?)
    /// In its device's I/O scheduler.
    case queued
    /// In no queue, until its app is resumed, or until an open of its class returns its thread.
    case parked
    /// A close, until nothing is in flight on its descriptor.
    case closing
    /// The kernel has the request, or the request waits for room in the ring.
    case inFlight(Flight)
    case ended
  }

  /// The state of a request that is in flight.
  struct Flight {
    enum Step {
      /// The call itself.
      case operation
      /// A stat of the file to be opened; the memory for the kernel's answer.
      case stat(UnsafeMutableRawPointer)
      /// A poll until the operation would not block.
      case poll
      /// A zero-copy send that was accepted with this result: the kernel uses the buffer until the peer has
      /// received everything.
      case accepted(Int32)
    }

    /// The limiter that counts the request, and the class.
    enum Limiter {
      case none
      /// ``OpenLimiter``: the open has a thread.
      case open(IOClass)
      /// ``DescriptorCloser``: one of the closes in the kernel.
      case close(CloseQueue.Kind)
    }

    enum Ending {
      case none
      /// An early end was asked for; the caller waits until the kernel has ended the request.
      case asked(IOError.Code)
      /// The caller has the answer already.
      case answered
      /// The caller has the answer, and the open stays on a thread of the pool, perhaps for ever.
      case lost
    }

    var step: Step
    /// The device slot, if the request still has one.
    var grant: Grant?
    var limiter = Limiter.none
    var ending = Ending.none
  }

  let call: IOCall
  let app: AppEntry
  private var caller: Caller?
  private var outcome = Outcome.pending
  /// [answer] Stored with release after `outcome`, loaded with acquire before `outcome` is read. The runtime
  /// orders the two as well; but if the answer comes before the caller has suspended, ThreadSanitizer does
  /// not see that order.
  private let isAnswered = Atomic<Bool>(false)

  // Reactor's thread only, from here on.
  private(set) var phase = Phase.posted(endsBecause: nil)
  /// The position in the scheduler's queue; assigned once.
  private(set) var ticket: Ticket?
  private(set) var file: FileFacts
  /// Bytes moved so far, by all pieces.
  private(set) var done: Int
  /// Bytes of the current piece.
  var piece = 0
  /// When the current piece was queued, or its app was resumed since; and when it was sent. Nanoseconds.
  var queuedAt: UInt64 = 0
  var sentAt: UInt64 = 0
  var attempt = Attempt()
  var deadline: Deadline?
  /// Whether somebody of the foreground waits for the caller, or has waited: a donation is kept until the
  /// request ends, however the wait for it does.
  private(set) var isDonated = false
  /// The index in `Donations`.
  var indexInDonations = -1
  /// The index in `AppEntry.inFlight`, and the neighbours in the descriptor's list.
  var indexInApp = -1
  var links = RequestsByDescriptor.Links()

  /// What earlier results of the kernel have shown.
  struct Attempt {
    var retries = 0
    /// Whether the request carries an I/O priority in the kernel; and whether the kernel refused one.
    var hasPriority = false
    var wasRefusedPriority = false
    /// Whether the socket supports sends with a copy only.
    var needsCopy = false
  }

  /// - Parameter done: bytes that were moved inline.
  init(_ call: IOCall, done: Int = 0) {
    self.call = call
    self.done = done
    app = call.app.entry
    file = call.file
  }

  deinit { assert(!links.isListed) }

  // MARK: The answer

  /// Called before the request is posted.
  func setCaller(_ caller: Caller) { self.caller = caller }

  /// Whether a blocked thread waits for the request, which uses that thread's memory.
  var borrowsMemory: Bool { if case .thread? = caller { true } else { false } }

  func setOutcome(_ outcome: Outcome) {
    self.outcome = outcome
    deadline?.request = nil
  }

  /// Returns the caller to resume, once. The reactor must not access the request afterwards.
  func takeCaller() -> Caller? {
    guard let caller else { return nil }
    self.caller = nil
    isAnswered.store(true, ordering: .releasing)  // [answer]
    return caller
  }

  /// The result; called by the caller after it was resumed.
  func value() throws(IOError) -> Int {
    _ = isAnswered.load(ordering: .acquiring)  // [answer]
    switch outcome {
    case .value(let value): return value
    case .failed(let code): throw call.error(code, done: done)
    case .pending: throw IOError(.unavailable, "\(call.code) was never answered")
    }
  }

  /// Whether the caller is to try again: nothing has ended the call. Read by the caller after it was resumed.
  var isPending: Bool {
    _ = isAnswered.load(ordering: .acquiring)  // [answer]
    if case .pending = outcome { return true }
    return false
  }

  override func refuse() {
    call.giveBackBuffers()
    outcome = .failed(.unavailable)
    takeCaller()?.resume()
  }

  // MARK: Properties

  /// Bytes still to be moved.
  var left: Int { call.total - done }

  /// The number of its ticket; 0 before it has one.
  var ticketNumber: UInt64 { ticket?.number ?? 0 }

  /// Whether the peer decides when the request completes, so that it does not occupy the device.
  var waitsForPeer: Bool { file.waitsForPeer || call.waitsForPeer }

  /// Whether this is an open that needs a thread of ``OpenLimiter``.
  var isOpenThatWaits: Bool { call.isOpen && file.waitsForPeer }

  /// Whether the result of the call is a descriptor.
  var opensDescriptor: Bool {
    guard call.isOpen || call.code == .OPP_RING_ACCEPT else { return false }
    return switch flight?.step {
    case .stat, .poll: false
    case .operation, .accepted, nil: true
    }
  }

  /// Whether the end of its app cancels the request. (R-FTS-07)
  var isDroppedAtTermination: Bool {
    if waitsForPeer || call.bringsIn { return true }
    if case .poll? = flight?.step { return true }
    return false
  }

  /// Whether the end of its app waits for the kernel to end the request. A detached open does not count: a
  /// thread of the pool may stay in it for ever, as for a FIFO without a peer. If it ever completes, the
  /// descriptor is closed.
  var holdsUpTheEnd: Bool { !isAccepted && !(call.isOpen && isDetached) }

  /// Whether a terminated app lets the request finish. (R-FTS-07)
  var isFinishedAtTermination: Bool { holdsUpTheEnd && !isDroppedAtTermination }

  /// Whether the transfer continues after this piece has moved `moved` bytes.
  func goesOn(afterMoving moved: Int) -> Bool {
    guard left > 0, moved > 0 else { return false }
    return call.wantsAll || (moved == piece && !waitsForPeer)
  }

  /// Looks at who waits for the caller now.
  func lookAtDonation() {
    if !isDonated, let band = call.standing?.donatedBand, band > .background { isDonated = true }
  }

  // MARK: In flight

  var flight: Flight? { if case .inFlight(let flight) = phase { flight } else { nil } }

  /// Whether this is a zero-copy send that the kernel has accepted: it uses its buffer, but neither a device
  /// slot nor its descriptor.
  var isAccepted: Bool {
    if case .inFlight(let flight) = phase, case .accepted = flight.step { true } else { false }
  }

  /// Whether the caller has the answer while the kernel still has the request.
  var isDetached: Bool {
    guard case .inFlight(let flight) = phase else { return false }
    return switch flight.ending {
    case .none, .asked: false
    case .answered, .lost: true
    }
  }

  /// The reason of an early end, if one was asked for.
  var endsBecause: IOError.Code? {
    switch phase {
    case .posted(let reason): return reason
    case .inFlight(let flight): if case .asked(let reason) = flight.ending { return reason }
    case .queued, .parked, .closing, .ended: break
    }
    return nil
  }

  // MARK: Transitions

  /// The request must end as soon as the reactor handles it.
  func toPostedButEnding(because reason: IOError.Code) {
    guard case .posted(let before) = phase else { return assertionFailure() }
    phase = .posted(endsBecause: before ?? reason)
  }

  func toQueued(_ ticket: Ticket) {
    assert(!isEnded)
    assert(self.ticket == nil || self.ticket == ticket)
    self.ticket = ticket
    phase = .queued
  }

  func toParked() {
    assert(!isEnded)
    phase = .parked
  }

  func toClosing() {
    assert(call.isClose)
    phase = .closing
  }

  func toInFlight(_ step: Flight.Step, _ grant: Grant?, _ limiter: Flight.Limiter) {
    assert(!isEnded)
    phase = .inFlight(Flight(step: step, grant: grant, limiter: limiter))
  }

  /// The kernel has accepted a zero-copy send, and still uses its buffer. Returns the device slot, which the
  /// request gives up.
  func toAccepted(_ result: Int32) -> Grant? {
    updateFlight { flight -> Grant? in
      flight.step = .accepted(result)
      guard result >= 0 else { return nil }
      defer { flight.grant = nil }
      return flight.grant
    } ?? nil
  }

  /// An early end is asked for. The first reason is kept.
  func toEnding(because reason: IOError.Code) {
    updateFlight { if case .none = $0.ending { $0.ending = .asked(reason) } }
  }

  /// The app ends: replaces the reason of any earlier request to end.
  func toTerminating() {
    updateFlight {
      switch $0.ending {
      case .none, .asked: $0.ending = .asked(.terminated)
      case .answered, .lost: break
      }
    }
  }

  /// The caller gets its answer; the kernel still has the request.
  func toDetached(isLost: Bool) {
    assert(!isDetached)
    updateFlight { $0.ending = isLost ? .lost : .answered }
  }

  func toEnded() {
    assert(!isEnded)
    phase = .ended
  }

  /// Counts a piece that was moved.
  func moved(_ count: Int) {
    assert(count <= left)
    done += count
  }

  /// Records the result of the stat, or nil if it failed.
  func learnFile(_ kind: Int32?) {
    file.statBuffer = nil
    if let kind { file.learn(kindToOpen: kind, nonBlocking: call.op.flags & UInt32(O_NONBLOCK) != 0) }
  }

  private var isEnded: Bool { if case .ended = phase { true } else { false } }

  @discardableResult private func updateFlight<Result>(_ body: (inout Flight) -> Result) -> Result? {
    guard case .inFlight(var flight) = phase else {
      assertionFailure("it is not in flight")
      return nil
    }
    let result = body(&flight)
    phase = .inFlight(flight)
    return result
  }
}

/// A deadline in the timer queue, where it stays until its time. It releases the request once that has its
/// answer, so that a distant deadline retains neither the request nor its app and broker.
final class Deadline {
  var request: Request?
  init(_ request: Request) { self.request = request }
}
