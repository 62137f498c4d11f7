internal import COpportune
import Glibc
import Synchronization

/// A call on its way: from the caller's thread to the reactor, to the kernel, and back.
///
/// The caller posts it; from then on it is the reactor's alone, until its caller is resumed: then the caller
/// reads ``value()``. The tag that the kernel carries holds it, so nothing of it is freed before the last
/// completion.
///
/// Invariants:
///  - the phase changes only by the transitions below, each of which asserts where it comes from;
///  - it holds a grant of the I/O scheduler's, and counts with a limiter, only in flight;
///  - its caller is resumed once; its buffers are given back once, when it ends.
final class Request: ReactorMessage, @unchecked Sendable {
  // Sendable: see above.
  typealias Ticket = IOScheduler<Request>.Ticket
  typealias Grant = IOScheduler<Request>.Grant

  /// Who waits for the answer.
  enum Caller {
    case task(UnsafeContinuation<Void, Never>)
    /// Its memory is borrowed: it goes on when the kernel has let go of that, whatever ends the request
    /// before. The semaphore is gone once it does.
    case thread(UnsafeMutablePointer<sem_t>)

    func resume() {
      switch self {
      case .task(let continuation): continuation.resume()
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
    /// Being made, or posted and not heard yet. With the reason why it is not to begin, if there is one.
    case posted(endsBecause: IOError.Code?)
    /// In its device's I/O scheduler.
    case queued
    /// In no queue: until its app is resumed, or until an open of its class gives its thread back.
    case parked
    /// A close, until nothing is in flight on its descriptor.
    case closing
    /// The kernel has it, or it waits for room in the ring.
    case inFlight(Flight)
    case ended
  }

  /// What is so only while the kernel has a request.
  struct Flight {
    enum Step {
      /// The call itself.
      case operation
      /// What kind of file is to be opened; the kernel's answer goes there.
      case stat(UnsafeMutableRawPointer)
      /// When its descriptor would not have to wait.
      case poll
      /// A zero-copy send with this result: the kernel keeps the buffer until the peer has it all.
      case accepted(Int32)
    }

    /// Which limiter counts it, as of what class.
    enum Limiter {
      case none
      /// ``OpenLimiter``: it has a thread to wait on.
      case open(IOClass)
      /// ``DescriptorCloser``: it is one of the closes in the kernel.
      case close(IOClass)
    }

    enum Ending {
      case none
      /// It is to end before its time; its caller waits until the kernel has let go.
      case asked(IOError.Code)
      /// Its caller has the answer already.
      case answered
      /// The same, of an open that stays on a thread of the pool's, perhaps for ever.
      case lost
    }

    var step: Step
    /// Its place in the device, if it has one still.
    var grant: Grant?
    var limiter = Limiter.none
    var ending = Ending.none
  }

  let call: IOCall
  let app: AppEntry
  private var caller: Caller?
  private var outcome = Outcome.pending
  /// [answer] Stored with release after `outcome`, loaded with acquire before it is read. The runtime orders
  /// the two as well, but where the answer comes before the caller has suspended the thread sanitizer does
  /// not see that.
  private let isAnswered = Atomic<Bool>(false)

  // The reactor's.
  private(set) var phase = Phase.posted(endsBecause: nil)
  /// Its place in its scheduler's queue, once and for all.
  private(set) var ticket: Ticket?
  private(set) var file: FileFacts
  /// Bytes moved, by all pieces so far.
  private(set) var done: Int
  /// Bytes of the present piece.
  var piece = 0
  /// When its present piece was queued, or its app resumed since, and when it was sent.
  var queuedAt: UInt64 = 0
  var sentAt: UInt64 = 0
  var attempt = Attempt()
  var deadline: Deadline?
  /// Its place in `AppEntry.inFlight`, and its neighbours in the list of its descriptor.
  var indexInApp = -1
  var links = RequestsByDescriptor.Links()

  /// What earlier answers of the kernel have taught.
  struct Attempt {
    var retries = 0
    /// Whether the kernel has it with an I/O priority; and whether it refused one.
    var hasPriority = false
    var wasRefusedPriority = false
    /// Whether its socket sends with a copy only.
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

  /// Before it is posted.
  func setCaller(_ caller: Caller) { self.caller = caller }

  /// Whether a thread waits for it, whose memory it uses.
  var borrowsMemory: Bool { if case .thread? = caller { true } else { false } }

  func setOutcome(_ outcome: Outcome) {
    self.outcome = outcome
    deadline?.request = nil
  }

  /// Whom to resume, once; the request may not be touched by the reactor afterwards.
  func takeCaller() -> Caller? {
    guard let caller else { return nil }
    self.caller = nil
    isAnswered.store(true, ordering: .releasing)  // [answer]
    return caller
  }

  /// The caller's, after it was resumed.
  func value() throws(IOError) -> Int {
    _ = isAnswered.load(ordering: .acquiring)  // [answer]
    switch outcome {
    case .value(let value): return value
    case .failed(let code): throw call.error(code, done: done)
    case .pending: throw IOError(.unavailable, "\(call.code) was never answered")
    }
  }

  override func refuse() {
    call.giveBackBuffers()
    outcome = .failed(.unavailable)
    takeCaller()?.resume()
  }

  // MARK: What it is

  /// Bytes that are still to be moved.
  var left: Int { call.total - done }

  /// The number of its ticket; 0 before it has one.
  var ticketNumber: UInt64 { ticket?.number ?? 0 }

  /// Whether the other end decides when it is done, so that it does not occupy the device.
  var waitsForPeer: Bool { file.waitsForPeer || call.waitsForPeer }

  /// Whether it is an open that needs a thread of ``OpenLimiter``'s.
  var isOpenThatWaits: Bool { call.isOpen && file.waitsForPeer }

  /// Whether an answer of the call itself is a descriptor.
  var opensDescriptor: Bool {
    guard call.isOpen || call.code == .OPP_RING_ACCEPT else { return false }
    return switch flight?.step {
    case .stat, .poll: false
    case .operation, .accepted, nil: true
    }
  }

  /// Whether its app's end drops it. (R-FTS-07)
  var isDroppedAtTermination: Bool {
    if waitsForPeer || call.bringsIn { return true }
    if case .poll? = flight?.step { return true }
    return false
  }

  /// Whether its app's end waits until the kernel has let go. A pool's thread may stay in an open for ever,
  /// as of a FIFO that nobody else opens; if it ever ends, what was opened is closed.
  var holdsUpTheEnd: Bool { !isAccepted && !(call.isOpen && isDetached) }

  /// Whether it is of what an app that is terminated leaves finished. (R-FTS-07)
  var isFinishedAtTermination: Bool { holdsUpTheEnd && !isDroppedAtTermination }

  /// Whether a transfer that moved `moved` bytes this time is to go on.
  func goesOn(afterMoving moved: Int) -> Bool {
    guard left > 0, moved > 0 else { return false }
    return call.wantsAll || (moved == piece && !waitsForPeer)
  }

  // MARK: In flight

  var flight: Flight? { if case .inFlight(let flight) = phase { flight } else { nil } }

  /// Whether it is a zero-copy send that the kernel has accepted: it holds its buffer, but neither a place
  /// nor a descriptor.
  var isAccepted: Bool {
    if case .inFlight(let flight) = phase, case .accepted = flight.step { true } else { false }
  }

  /// Whether its caller has the answer, and the kernel has it still.
  var isDetached: Bool {
    guard case .inFlight(let flight) = phase else { return false }
    return switch flight.ending {
    case .none, .asked: false
    case .answered, .lost: true
    }
  }

  /// Why it is to end before its time, if it is.
  var endsBecause: IOError.Code? {
    switch phase {
    case .posted(let reason): return reason
    case .inFlight(let flight): if case .asked(let reason) = flight.ending { return reason }
    case .queued, .parked, .closing, .ended: break
    }
    return nil
  }

  // MARK: Transitions

  /// It is to end as soon as the reactor hears of it.
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

  /// The kernel has answered a zero-copy send, and keeps its buffer. Returns its place where it was accepted,
  /// which it has no more.
  func toAccepted(_ result: Int32) -> Grant? {
    updateFlight { flight -> Grant? in
      flight.step = .accepted(result)
      guard result >= 0 else { return nil }
      defer { flight.grant = nil }
      return flight.grant
    } ?? nil
  }

  /// Its end is asked for. The first reason stays.
  func toEnding(because reason: IOError.Code) {
    updateFlight { if case .none = $0.ending { $0.ending = .asked(reason) } }
  }

  /// Its app ends, whatever it was to end for before.
  func toTerminating() {
    updateFlight {
      switch $0.ending {
      case .none, .asked: $0.ending = .asked(.terminated)
      case .answered, .lost: break
      }
    }
  }

  /// Its caller has the answer; the kernel goes on with it.
  func toDetached(isLost: Bool) {
    assert(!isDetached)
    updateFlight { $0.ending = isLost ? .lost : .answered }
  }

  func toEnded() {
    assert(!isEnded)
    phase = .ended
  }

  /// A piece of it was moved.
  func moved(_ count: Int) {
    assert(count <= left)
    done += count
  }

  /// The kernel has said what the file is, or refused.
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

/// A deadline among the timers, which stays there until its time. It lets go of the request when that has its
/// answer, so that a deadline far off keeps neither the request nor its app and broker.
final class Deadline {
  var request: Request?
  init(_ request: Request) { self.request = request }
}
