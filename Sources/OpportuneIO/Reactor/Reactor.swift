internal import COpportune
import DequeModule
import Glibc
import Logging
import Synchronization

/// The broker itself: one thread of the foreground's class that owns the ring, both schedulers and all state of requests.
/// Other threads talk to it by messages, which never block and wait for no other thread (law 1): a background thread
/// that is stopped while it submits holds back its own request and nobody else's.
///
/// `schedulers`, `apps`, `timers` and `outbox` are touched on that thread only; that makes the class Sendable.
final class Reactor: @unchecked Sendable {
  let configuration: IOConfiguration
  let logger: Logger
  let ring: OpaquePointer
  let can: opp_ring_abilities
  private let faults: Faults?
  let registered: RegisteredBuffers?
  private let forks = opp_fork_generation()
  let hasEnded = Atomic<Bool>(false)
  let callers = CallersByDescriptor()

  // The reactor thread's.
  /// Messages that are still to be heard, oldest first.
  var fetched: UnsafeMutablePointer<opp_link>?
  var schedulers: [IOScheduler<Request>]
  var apps: [AppEntry?] = []
  var lastApp: UInt64 = 0
  /// What apps did that are not there any more, by class, and the last of them.
  var goneInAll = [IOStatistics.Class(), IOStatistics.Class()]
  var gone = Deque<IOStatistics.App>()
  var timers = TimerQueue<Timer>()
  private var timersBeforeCompaction = 1024
  /// Requests for which the ring had no room.
  private var outbox = Deque<opp_ring_op>()
  private var closes = CloseQueue()
  var onDescriptors = RequestsByDescriptor()
  /// What the schedulers have queued.
  var queuedOnDescriptors = RequestsByDescriptor()
  /// Closes that wait for what is in flight on their descriptor, and what sends them.
  var closing: [Int32: (app: AppEntry, body: (Reactor) -> Void)] = [:]
  /// By descriptor: the count of closes with its last.
  var closedAt: [Int32: UInt64] = [:]
  var lastRequest: UInt64 = 0
  /// Opens that wait for others, by class.
  var waitingOpens = [0, 0]
  /// Opens that were kept and are queued again for a thread that is free; see ``wakeOpens()``.
  var opensAwake: [Request] = []
  var mayWakeOpens = false
  /// Opens without callers on threads of the pool's, which may stay there for ever. See ``end(_:early:)``.
  var lostOpens = 0
  /// Requests of ours and of apps that the kernel has, or that are in the outbox; each app whose end waits for calls at once, and
  /// each close that waits.
  var inFlight = 0
  private(set) var now: UInt64 = 0
  /// Callers that may go on. They are told when this thread has let go of their requests, so that they free them: the
  /// allocator's lock for memory of a background thread may be held by that thread while the kernel has stopped it, and
  /// this one must not wait for it (law 1). By class: foreground is told first, as each telling may wake a thread.
  var answers: [[Request.Caller]] = [[], []]
  /// Messages that were heard, and requests whose callers went on before the kernel let go of them: to be freed on another
  /// thread for the same reason.
  private var discarded: [Unmanaged<Message>] = []
  private var isEnding = false
  /// The shutdown has returned, though an open may keep this thread.
  private(set) var isOver = false
  private var onEnded: [() -> Void] = []
  /// Cleared where the kernel refuses them.
  var usesPriorities: Bool

  enum Timer {
    case deadline(Deadline)
    case heartbeat(Watch)
  }

  init(_ configuration: IOConfiguration, _ logger: Logger) throws(IOError) {
    self.configuration = configuration
    self.logger = logger
    faults = configuration.fault.map(Faults.init)
    registered = configuration.registeredBuffers.map { RegisteredBuffers($0) }
    usesPriorities = configuration.kernelPriorities != .none
    var config = opp_ring_config()
    config.backend =
      switch configuration.backend {
      case .automatic: .OPP_RING_AUTOMATIC
      case .uring: .OPP_RING_URING
      case .threads: .OPP_RING_THREADS
      }
    config.entries = UInt32(configuration.entries)
    config.completions = UInt32(configuration.completions ?? 0)
    let waiting = 2 * (CloseQueue.limit + Self.waitingOpensLimit)
    config.threads = UInt32(configuration.threads + waiting)
    // For all that may be in flight: background that waits for a file would fill the kernel's few threads.
    config.workers = UInt32(configuration.storage.depth + waiting)
    // What a close frees may take long, and the kernel's threads have others wait behind it.
    config.closers = UInt32(2 * CloseQueue.limit)
    config.linger_ns = UInt32(configuration.busyPoll.nanoseconds)
    if let faults {
      config.context = Unmanaged.passUnretained(faults).toOpaque()
      config.fault = { context, op in
        guard let context else { return Int32.min }
        return Unmanaged<Faults>.fromOpaque(context).takeUnretainedValue().answer(op.pointee) ?? Int32.min
      }
    }
    var created: OpaquePointer?
    let error = opp_ring_create(&config, &created)
    guard error == 0, let ring = created else {
      throw IOError(.unavailable, "no ring: \(String(cString: strerror(-error)))")
    }
    self.ring = ring
    var can = opp_ring_can(ring)
    if configuration.lacksTruncate { can.truncate = false }
    self.can = can
    let now = configuration.clock?() ?? opp_now_ns()
    var storage = configuration.storage
    // Behind more requests than there are threads, foreground would wait for background in the threads' queue.
    if can.backend == .OPP_RING_THREADS { storage.depth = min(storage.depth, configuration.threads) }
    schedulers = [IOScheduler(storage, now: now), IOScheduler(configuration.network, now: now)]
    if can.refused != 0 {
      logger.warning(
        "io_uring is refused here; files go over threads, sockets over poll",
        metadata: ["reason": "\(String(cString: strerror(-can.refused)))"])
    }
    try? refuse(inChild: true)
    let context = Unmanaged.passRetained(self)
    let threadError = opp_thread_start("opportune-io", 0, { Reactor.main($0) }, context.toOpaque())
    guard threadError == 0 else {
      context.release()
      throw IOError(.unavailable, "no thread for the broker: \(String(cString: strerror(-threadError)))")
    }
  }

  // The thread holds the reactor, so it has ended, and nothing is in flight.
  deinit { opp_ring_destroy(ring) }

  // MARK: Any thread

  var hasFault: Bool { faults != nil }

  /// This is the child of a fork(): the thread is in the parent.
  var isForked: Bool { forks != opp_fork_generation() }

  func checkFork() throws(IOError) { try refuse(inChild: isForked) }

  /// Called once in the parent too: what the runtime makes for a first refusal it makes under locks of its own, and the
  /// child would wait for ever for one that another thread had as it was made.
  @inline(never) private func refuse(inChild: Bool) throws(IOError) {
    if inChild {
      throw IOError(.forked, "the broker was made before fork(); make a new one in the child")
    }
  }

  // MARK: The thread

  private static func main(_ context: UnsafeMutableRawPointer?) {
    guard let context else { return }
    let reactor = Unmanaged<Reactor>.fromOpaque(context).takeRetainedValue()
    reactor.takeOrdinaryClass()
    let error = opp_ring_start(reactor.ring)
    if error == 0 {
      reactor.registerBuffers()
      reactor.run()
    } else {
      reactor.logger.error("the broker cannot start", metadata: ["reason": "\(String(cString: strerror(-error)))"])
    }
    reactor.refuseFetched()
    reactor.hasEnded.store(true, ordering: .sequentiallyConsistent)  // [end] before the last look
    reactor.refusePosted()
    reactor.tellOfEnd()
  }

  private func run() {
    var failure: Int32 = 0
    withUnsafeTemporaryAllocation(of: opp_ring_completion.self, capacity: 128) { completions in
      guard let first = completions.baseAddress else { return }
      while !(isEnding && inFlight == 0) {
        now = readClock()
        takeMessages()
        fireTimers()
        dispatchAll()
        sendOutbox()
        sendAnswers()
        if isEnding, lostOpens > 0, inFlight == lostOpens { tellOfEnd() }
        let count = opp_ring_wait(ring, first, UInt32(completions.count), wakeTime())
        now = readClock()
        if count < 0 {
          // Said once, however often it is tried again.
          if count != failure {
            logger.error("the ring fails", metadata: ["reason": "\(String(cString: strerror(-count)))"])
          }
          opp_pause()
        }
        failure = min(count, 0)
        for index in 0..<max(0, Int(count)) { arrived(completions[index]) }
        sendAnswers()
      }
    }
  }

  private func readClock() -> UInt64 { configuration.clock?() ?? opp_now_ns() }

  private func sendAnswers() {
    for index in answers.indices {
      for caller in answers[index] { caller.resume() }
      answers[index].removeAll(keepingCapacity: true)
    }
    guard !discarded.isEmpty else { return }
    let list = discarded
    discarded = []
    Task.detached { for message in list { message.release() } }
  }

  func discard(_ message: Message) { discarded.append(.passRetained(message)) }

  private func wakeTime() -> UInt64 {
    if !outbox.isEmpty || fetched != nil || (isEnding && inFlight == 0) { return 0 }
    timers.skip(unless: isWanted)
    var time = timers.next ?? .max
    for index in schedulers.indices { time = min(time, schedulers[index].wakeTime(now: now) ?? .max) }
    return time
  }

  private func fireTimers() {
    while let timer = timers.pop(dueAt: now) {
      switch timer {
      case .deadline(let deadline): if let request = deadline.request { end(request, early: .deadlineExceeded) }
      case .heartbeat(let watch): watch.heartbeatIsDue(at: self)
      }
    }
  }

  func setTimer(_ timer: Timer, at time: UInt64) {
    timers.add(timer, at: time)
    guard timers.count > timersBeforeCompaction else { return }
    timers.compact(keeping: isWanted)
    timersBeforeCompaction = max(1024, 2 * timers.count)
  }

  private func isWanted(_ timer: Timer, _ time: UInt64) -> Bool {
    switch timer {
    case .deadline(let deadline): deadline.request != nil
    case .heartbeat(let watch): watch.waits(until: time)
    }
  }

  // MARK: The ring

  /// Puts a request into the ring, or behind those that wait for room.
  func prepare(_ op: opp_ring_op) {
    inFlight += 1
    push(op)
  }

  /// A close, whose end is told by ``closeEnded(_:)``.
  func prepareClose(_ op: opp_ring_op, _ ioClass: IOClass) {
    inFlight += 1
    CloseQueue.endLingering(op.fd)
    if let now = closes.begin(op, ioClass) { push(now) }
  }

  private func closeEnded(_ ioClass: IOClass) {
    if let next = closes.ended(ioClass) { push(next) }
  }

  private func push(_ op: opp_ring_op) {
    var op = op
    if !outbox.isEmpty || opp_ring_prepare(ring, &op) != 0 { outbox.append(op) }
  }

  private func sendOutbox() {
    while var op = outbox.first {
      guard opp_ring_prepare(ring, &op) == 0 else { return }
      outbox.removeFirst()
    }
  }

  private func arrived(_ completion: opp_ring_completion) {
    let isLast = completion.flags & UInt32(OPP_COMPLETION_MORE) == 0
    if isLast { inFlight -= 1 }
    guard let tag = UnsafeRawPointer(bitPattern: UInt(completion.tag)) else { return }  // 0: a cancellation's own
    let message = Unmanaged<Message>.fromOpaque(tag)
    guard isLast else {
      guard let request = message.takeUnretainedValue() as? Request else { return }
      request.firstResult = completion.result
      giveUpPlace(request, completion.result)
      letGo(request)
      if let app = owned(request.app) {
        closeIfQuiet(request.op.fd)
        becameQuieter(app)
      }
      return
    }
    switch message.takeRetainedValue() {
    case let request as Request:
      if let ioClass = request.closeClass { closeEnded(ioClass) }
      finished(request, completion.result)
    case let poll as Poll: poll.arrived(completion.result, at: self)
    case let closing as Closing:
      closeEnded(closing.ioClass)
      closing.body()
    default: break
    }
  }

  /// Asks the kernel to give up what `message` stands for. That still ends with its own completion.
  func cancelInKernel(_ message: Message) {
    var op = opp_ring_op()
    op.code = UInt8(opp_ring_code.OPP_RING_CANCEL.rawValue)
    op.fd = -1
    op.second = UInt64(UInt(bitPattern: Unmanaged.passUnretained(message).toOpaque()))
    prepare(op)
  }

  // MARK: Ending

  /// Ends the thread when nothing is in flight any more.
  func shutDown(then body: @escaping () -> Void) {
    onEnded.append(body)
    guard !isEnding else { return }
    isEnding = true
    for case let app? in apps { terminate(app) {} }
  }

  /// Nobody waits for an open that may never come back; until it does, this thread and the ring stay.
  private func tellOfEnd() {
    isOver = true
    let bodies = onEnded
    onEnded = []
    for body in bodies { body() }
  }

  /// Whether new requests are refused.
  var refuses: Bool { isEnding }
}

/// Keeps a test's closure where the C callback finds it.
private final class Faults: Sendable {
  let answer: @Sendable (opp_ring_op) -> Int32?
  init(_ answer: @escaping @Sendable (opp_ring_op) -> Int32?) { self.answer = answer }
}
