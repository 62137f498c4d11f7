internal import COpportune
import Glibc
import Logging
internal import OpportuneBase
import OpportuneScheduler

/// The reactor: one thread of the foreground's kernel class that owns the ring and the state of all requests.
/// Other threads send it messages; posting never blocks and waits for no other thread (law 1). So a
/// background thread that is stopped while it submits delays only its own request.
///
/// It is a loop over parts that each own their state. Below it: `path` and `termination`; below those, parts
/// that call only such as they were made with. See "A read's way" in docs/design.md.
///
/// Invariants:
///  - All parts except `mailbox`, `gates` and `donations` are used on the reactor's thread only.
///  - The thread ends when a shutdown was asked for and nothing is outstanding. From then on each message is
///    refused.
final class Reactor: @unchecked Sendable {
  // Sendable: see above.

  // Any thread.
  let configuration: IOConfiguration
  let capabilities: opp_ring_capabilities
  let registered: RegisteredBuffers?
  let gates = DescriptorGates()
  let descriptorKinds = DescriptorKinds()
  let readsOnWorkers: ReadsOnWorkers
  let donations = Donations()
  private let logger: Logger
  private let ring: OpaquePointer  // the mailbox's
  private let mailbox: Mailbox
  private let faults: Faults?

  // Reactor's thread.
  let path: RequestPath
  let termination: AppTermination
  let timers = Timers()
  private let clock: ReactorClock
  private let apps = AppTable()
  private let submissions: SubmissionQueue
  private let queues: DeviceQueues
  private let opens: OpenLimiter
  private let closer: DescriptorCloser
  private let sockets: SocketModerator
  private let watched: WatchedDescriptors
  private let replies: Replies
  private let statistics = ReactorStatistics()
  /// The thread's place in a scheduler's real-time foreground: of the first that has one.
  private var server: ForegroundServer?
  /// Functions to call at the end. nil: the shutdown has returned, though an open may still keep the thread.
  private var whenEnded: [() -> Void]? = []

  init(_ configuration: IOConfiguration, _ logger: Logger) throws(IOError) {
    self.configuration = configuration
    self.logger = logger
    faults = configuration.fault.map(Faults.init)
    registered = configuration.registeredBuffers.map { RegisteredBuffers($0) }
    ring = try Self.makeRing(configuration, faults)
    var capabilities = opp_ring_can(ring)
    if configuration.lacksTruncate { capabilities.truncate = false }
    if configuration.lacksMakeFolder { capabilities.make_folder = false }
    self.capabilities = capabilities
    mailbox = Mailbox(ring)

    clock = ReactorClock(configuration.clock ?? { opp_now_ns() })
    submissions = SubmissionQueue(ring)
    var storage = configuration.storage
    // If the depth exceeded the number of threads, foreground requests would wait behind background ones in
    // the threads' queue.
    if capabilities.backend == .OPP_RING_THREADS { storage.depth = min(storage.depth, configuration.threads) }
    readsOnWorkers = ReadsOnWorkers(storage, configuration.kernelPriorities)
    queues = DeviceQueues(
      storage: storage, network: configuration.network, readsOnWorkers: readsOnWorkers, donations: donations,
      now: clock.now)
    closer = DescriptorCloser(submissions, gates, apps)
    sockets = SocketModerator(configuration, logger)
    watched = WatchedDescriptors(isOn: configuration.receivesOnWorkers && configuration.triesInline)
    replies = Replies(configuration, queues, closer, sockets, watched)
    opens = OpenLimiter(mayLose: capabilities.backend == .OPP_RING_THREADS)
    let operations = KernelOperations(configuration, capabilities, registered)
    path = RequestPath(clock, timers, operations, submissions, queues, opens, closer, replies, watched)
    termination = AppTermination(path, queues, closer, submissions)

    donations.begin(for: mailbox)
    if capabilities.refused != 0 {
      logger.warning(
        "io_uring is refused here; files go over threads, sockets over poll",
        metadata: ["reason": "\(errorText(-capabilities.refused))"])
    }
    let context = Unmanaged.passRetained(self)
    let error = opp_thread_start("opportune-io", 0, { Reactor.main($0) }, context.toOpaque())
    guard error == 0 else {
      context.release()
      throw IOError(.unavailable, "no thread for the broker: \(errorText(-error))")
    }
  }

  private static func makeRing(
    _ configuration: IOConfiguration, _ faults: Faults?
  ) throws(IOError) -> OpaquePointer {
    var config = opp_ring_config()
    config.backend =
      switch configuration.backend {
      case .automatic: .OPP_RING_AUTOMATIC
      case .uring: .OPP_RING_URING
      case .threads: .OPP_RING_THREADS
      }
    config.entries = UInt32(configuration.entries)
    config.completions = UInt32(configuration.completions ?? 0)
    let waiting = CloseQueue.limit + 2 * OpenLimiter.limit
    config.threads = UInt32(configuration.threads + waiting)
    // One worker for each request that may be in flight. With fewer, background requests that wait for a file
    // would occupy all of the kernel's workers.
    config.workers = UInt32(configuration.storage.depth + waiting)
    // A close may take long to free its file, and would delay other requests on the kernel's threads.
    config.closers = UInt32(CloseQueue.limit)
    config.busy_poll_ns = UInt32(configuration.busyPoll.unsignedNanoseconds)
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
      throw IOError(.unavailable, "no ring: \(errorText(-error))")
    }
    return ring
  }

  // MARK: Any thread

  /// Whether reads, receives and sends are tried on their callers' threads.
  var triesInline: Bool { configuration.triesInline && faults == nil }

  /// Whether reads of the foreground may wait for the device on their callers' threads.
  var waitsOnWorkers: Bool { triesInline && readsOnWorkers.most > 0 }

  /// Whether receives of active apps may wait with their schedulers' workers.
  var receivesOnWorkers: Bool { triesInline && configuration.receivesOnWorkers }

  /// Whether the thread has ended.
  var hasEnded: Bool { mailbox.hasEnded }

  /// Posts a message; never blocks. If the thread has ended, the message is refused on the calling thread.
  func post(_ message: ReactorMessage) {
    mailbox.post(message)
  }

  /// Has the reactor look at an app's state.
  func stateChanged(of app: AppEntry) {
    // An app that is forgotten by then has no place any more, and another may have its slot.
    post(Control { if $0.apps.contains(app) { $0.path.follow(app) } })
  }

  /// Has the reactor look at what waits for the devices.
  func lookAgain() { post(Control { _ in }) }

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
      reactor.logger.error(
        "the broker cannot start", metadata: ["reason": "\(errorText(-error))"])
    }
    reactor.server?.leave()
    reactor.mailbox.close()
    reactor.tellOfEnd()
  }

  private func run() {
    var failure: Int32 = 0
    withUnsafeTemporaryAllocation(of: opp_ring_completion.self, capacity: 128) { completions in
      while !hasNothingLeft {
        clock.advance()
        mailbox.takeTurn { hear($0) }
        fireTimers()
        path.dispatchAll()
        submissions.flush()
        replies.send()
        if path.isEnding, opens.lost > 0, submissions.outstanding == opens.lost { tellOfEnd() }
        let count = submissions.wait(completions, until: wakeTime())
        server?.woke()
        clock.advance()
        if count < 0 {
          // Logged once for each error, however often the wait is repeated.
          if count != failure {
            logger.error("the ring fails", metadata: ["reason": "\(errorText(-count))"])
          }
          opp_pause()
        }
        failure = min(count, 0)
        for index in 0..<max(0, Int(count)) { completed(completions[index]) }
        replies.send()
      }
    }
  }

  private var hasNothingLeft: Bool { path.isEnding && submissions.outstanding == 0 }

  private func hear(_ message: ReactorMessage) {
    switch message {
    case let request as Request: path.submit(request)
    case let control as Control:
      control.run(on: self)
      replies.discard(control)  // and frees all that its closure captures
    default: assertionFailure("a message of no known kind")
    }
  }

  private func completed(_ completion: opp_ring_completion) {
    let isLast = completion.flags & UInt32(OPP_COMPLETION_MORE) == 0
    if isLast { submissions.completed() }
    guard let message = ReactorMessage.named(by: completion.tag) else { return }  // of a cancellation
    guard isLast else {
      if let request = message.takeUnretainedValue() as? Request { path.accepted(request, completion.result) }
      return
    }
    switch message.takeRetainedValue() {
    case let request as Request: path.completed(request, completion.result)
    case let call as KernelCall: call.completed(completion.result)
    default: assertionFailure("a completion of no known kind")
    }
  }

  private func fireTimers() {
    while let timer = timers.pop(dueAt: clock.now) {
      switch timer {
      case .deadline(let deadline):
        if let request = deadline.request { path.end(request, early: .deadlineExceeded) }
      case .heartbeat(let watch): watch.heartbeatIsDue()
      }
    }
  }

  private func wakeTime() -> UInt64 {
    if submissions.hasOverflow || mailbox.hasRest || hasNothingLeft { return 0 }
    return min(timers.nextTime(), queues.wakeTime(now: clock.now))
  }

  // MARK: Called by controls, on the reactor's thread

  func add(_ app: AppEntry) {
    apps.add(app)
    queues.add(app)
    if server?.isOver ?? true, let next = app.source.app?.serveForeground() {
      server?.leave()
      server = next
    }
    if path.isEnding { termination.terminate(app) {} }
  }

  /// The app's handle was released, so nothing of the app is queued, in flight or held.
  func forget(_ app: AppEntry) {
    assert(app.inFlight.isEmpty)
    assert(app.held.isEmpty)
    statistics.keep(app)
    for watch in app.watches { watch.stop() }
    // Of an app that was not terminated: nobody of it waits any more.
    for descriptor in app.descriptors.numbers {
      for wait in watched.remove(descriptor) { wait.becameReady() }
    }
    _ = queues.remove(app)
    apps.remove(app)
  }

  func adopt(_ descriptor: Int32, isSocket: Bool, by app: AppEntry) {
    replies.adopt(descriptor, isSocket: isSocket, by: app)
  }

  /// The last inline call has left a descriptor's gate, at which a close waits.
  func inlineCallsHaveLeft(_ descriptor: Int32) { closer.inlineCallsHaveLeft(descriptor) }

  /// Watches sockets of an app while it is suspended; nil where the app is terminated.
  func watch(
    _ sockets: [Watch.Socket], of app: AppEntry, every interval: UInt64?,
    _ events: AsyncStream<KeepAliveEvent>.Continuation
  ) -> Watch? {
    guard !app.isTerminated else { return nil }
    let watch = Watch(
      of: app, sockets: sockets, interval: interval, events: events, submissions, timers, clock, self.sockets)
    app.add(watch)
    for socket in sockets { self.sockets.moderate(socket.number, of: app) }
    if app.state == .suspended { watch.arm() }
    return watch
  }

  /// A snapshot; nil once a shutdown has returned.
  func takeStatistics() -> IOStatistics? {
    guard whenEnded != nil else { return nil }
    let all = apps.all
    for app in all { path.follow(app) }
    return statistics.all(
      all, storage: queues.statistics(of: .storage), network: queues.statistics(of: .network),
      wakeups: opp_ring_wakeups(ring), usesUring: capabilities.backend == .OPP_RING_URING)
  }

  // MARK: Shutdown

  /// Terminates all apps. The thread ends when nothing is outstanding any more.
  func shutDown(then body: @escaping () -> Void) {
    guard whenEnded != nil else { return body() }
    whenEnded?.append(body)
    guard !path.isEnding else { return }
    path.refuseFromNowOn()
    for app in apps.all { termination.terminate(app) {} }
  }

  /// Lets the shutdown return although an open may never complete. Until it does, this thread and the ring
  /// remain.
  private func tellOfEnd() {
    let bodies = whenEnded ?? []
    whenEnded = nil
    for body in bodies { body() }
  }
}

/// Setup of the thread.
extension Reactor {
  /// Moves the thread to the normal kernel class. It begins in the class of the thread that made the broker,
  /// which may run a background job. Called before the ring starts, since the ring's threads inherit the
  /// class.
  private func takeOrdinaryClass() {
    var ordinary = opp_sched_params()
    ordinary.policy = OPP_CLASS_NORMAL
    // The program's own nice value is that of its first thread, whose id is the process id.
    var first = opp_sched_params()
    if opp_thread_get_sched(getpid(), &first) == 0 { ordinary.nice = first.nice }
    // The foreground's answers pass through this thread. With the kernel's default slice, of a few
    // milliseconds, it would be served after foreground workers, whose slice is this one. A kernel before
    // 6.12 ignores it.
    ordinary.slice_ns = KernelPriority.foregroundSliceNanoseconds
    let error = opp_thread_set_sched(0, &ordinary)
    guard error != 0 else { return }
    watched.turnOff()
    logger.warning(
      "the broker's thread stays in the class of the thread that made it; foreground I/O may wait for background CPU time",
      metadata: [
        "reason": "\(errorText(-error))",
        "remedy": "make the broker on an ordinary thread, or give CAP_SYS_NICE",
      ])
  }

  private func registerBuffers() {
    guard let registered else { return }
    let error = registered.register(with: ring)
    guard error != 0 else { return }
    logger.warning(
      "the kernel registers no buffers; they are used as others are",
      metadata: [
        "reason": "\(errorText(-error))", "bytes": "\(registered.count * registered.size)",
        "remedy": "a higher RLIMIT_MEMLOCK, or CAP_IPC_LOCK",
      ])
  }
}

/// Holds a test's closure for the C callback.
private final class Faults: Sendable {
  let answer: @Sendable (opp_ring_op) -> Int32?
  init(_ answer: @escaping @Sendable (opp_ring_op) -> Int32?) { self.answer = answer }
}
