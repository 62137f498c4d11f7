internal import COpportune
import Synchronization

/// The one thread that watches: it looks at running jobs once a quantum while there are any, at stalled lanes when
/// somebody has asked, and at timers when they are due. With everything asleep it sleeps too.
///
/// It is woken by one-shot alarms, so asking it to look costs the asker a system call of 0.3 µs and wakes nobody.
/// What is policy here is in ``QuantumAccount`` and ``KernelPriority``; the monitor measures and carries out.
final class Monitor: @unchecked Sendable {
  enum Message {
    case spawn(LaneState)
    case ended(Worker)
    case ready(level: UInt8)
    /// An app changed its band: what runs of it changes its class.
    case reclassify
    /// Work of a higher band waits for the strand of this identity, which is running.
    case raise(UInt64, Band)
    /// Somebody may be waiting for an app to become quiet.
    case checkWaiters
    case waitForQuiet(AppCore, CheckedContinuation<Void, Never>)
    case timer(SleepTimer)
    /// The sleep ended early: the timer's place is free.
    case cancelled(SleepTimer)
    case added(AppRecord)
    case snapshot(CheckedContinuation<Snapshot, Never>)
    case cpuTime(AppCore, CheckedContinuation<UInt64, Never>)
    case shutDown(within: Duration, CheckedContinuation<[String], Never>)
  }

  /// What the monitor knows that statistics tell.
  struct Snapshot {
    var apps: [AppRecord] = []
    var timers = 0
  }

  private final class Envelope {
    let message: Message
    init(_ message: Message) { self.message = message }
  }

  private enum Alarm: UInt32 { case tick, watch, timers }

  // The C objects are thread-safe; everything else is the thread's own.
  private let alarms: OpaquePointer
  private let inbox: OpaquePointer
  private let nextFire = Atomic<UInt64>(.max)
  private let cancellations = Atomic<UInt64>(0)
  /// How long after a stall may have begun to look: the reserve's delay, or, where jobs ordinarily take longer and looks
  /// would only disturb them, half of what that delay has become.
  private let watchDelay = Atomic<UInt64>(500_000)
  /// The thread is gone: whoever posts answers by itself.
  private let hasEnded = Atomic<Bool>(false)
  private var engine: Engine?
  private var timers = TimerHeap<SleepTimer>()
  private var seen: [ObjectIdentifier: Seen] = [:]
  private var lookedAt: [ObjectIdentifier: Look] = [:]
  private var quietWaiters: [(AppCore, CheckedContinuation<Void, Never>)] = []
  private var shutdown: (deadline: UInt64, continuation: CheckedContinuation<[String], Never>)?
  private var apps: [AppRecord] = []
  /// How many there must be before those that are gone are looked for.
  private var appsToSweep = 16
  private var live = 0
  private var lastLimits: UInt64 = 0
  private var quantum: UInt64 = 10_000_000
  private var reserveDelay: UInt64 = 500_000

  /// What the monitor remembers of a running job between two looks.
  private struct Seen {
    let sequence: UInt64
    /// Its depth at the first look, and by now.
    let first: Int
    var depth: Int
    /// Voluntary context switches at the last look.
    var switches: Int64
    /// Time off the CPU without waiting for one, nanoseconds, as far as known; and what shows as such where none is.
    var offCPU: UInt64 = 0
    var nothing: Int64 = 0
    /// CPU time and time off the CPU when it was last seen to have blocked.
    var judgedCPU: UInt64 = 0
    var judgedOff: UInt64 = 0
  }

  private struct Look {
    let sequence: UInt64
    let cpu: UInt64
    let at: UInt64
  }

  init() throws(SchedulerError) {
    guard let alarms = opp_alarms_create(), let inbox = opp_inbox_create() else {
      throw SchedulerError(
        .threadsUnavailable, "the kernel gave no timer descriptors (is the limit of open files reached?)")
    }
    self.alarms = alarms
    self.inbox = inbox
  }

  deinit {
    opp_inbox_destroy(inbox) { Unmanaged<Envelope>.fromOpaque($0).release() }
    opp_alarms_destroy(alarms)
  }

  static func from(_ context: UnsafeMutableRawPointer?) -> Monitor? {
    context.map { Unmanaged<Monitor>.fromOpaque($0).takeUnretainedValue() }
  }

  /// Starts the thread, and the workers.
  func start(_ engine: Engine) throws(SchedulerError) {
    self.engine = engine
    quantum = UInt64(engine.configuration.quantum.quantumNanoseconds)
    reserveDelay = UInt64(engine.configuration.reserveDelay.clampedNanoseconds)
    watchDelay.store(reserveDelay, ordering: .relaxed)
    lastLimits = opp_now_ns()
    for lane in engine.lanes {
      for _ in 0...engine.width where !spawn(lane, engine) { break }
    }
    let result = opp_thread_start(
      engine.configuration.name + "-mon", 256 << 10,
      { Unmanaged<Monitor>.fromOpaque($0.unsafelyUnwrapped).takeRetainedValue().run() },
      Unmanaged.passRetained(self).toOpaque())
    guard result == 0, live > 0 else {
      if result != 0 { Unmanaged.passUnretained(self).release() }
      self.engine = nil
      throw SchedulerError(.threadsUnavailable, "the kernel gave no thread (error \(-result))")
    }
  }

  // MARK: Any thread

  func post(_ message: Message) {
    push(message)
    ring()
  }

  private func push(_ message: Message) {
    let envelope = Unmanaged.passRetained(Envelope(message))
    // Without memory for a list entry it is answered as if the scheduler were shut down; of what needs no answer, the
    // tick and the next message make up for it.
    if opp_inbox_push(inbox, envelope.toOpaque()) != 0 { answerLate(envelope.takeRetainedValue().message) }
    // relaxed: if the inbox was fetched for the last time before this push, then the push has read what that fetch
    // wrote into the same word (acq_rel both), and `hasEnded` was stored before it. Else that fetch has the message.
    if hasEnded.load(ordering: .relaxed) { for message in messages() { answerLate(message) } }
  }

  func ring() { opp_alarms_ring(alarms) }

  /// A worker is inside a job: look at it in a quantum.
  func armTick() { opp_alarms_arm(alarms, Alarm.tick.rawValue, quantum + 100_000) }

  /// Something waits and all permits are in use: look again in a while.
  func armWatch() {
    // relaxed: a delay that is a little old does as well.
    opp_alarms_arm(alarms, Alarm.watch.rawValue, watchDelay.load(ordering: .relaxed))
  }

  /// A timer that must fire before the monitor would look by itself makes it look now.
  func add(_ timer: SleepTimer) {
    push(.timer(timer))
    // seqCst: the push comes before this look; the monitor publishes before its last look at the inbox.
    if timer.latest < nextFire.load(ordering: .sequentiallyConsistent) { ring() }
  }

  /// The sleep of `timer` was cancelled. The monitor takes it out when it is awake for something else, or when there are
  /// many.
  func cancel(_ timer: SleepTimer) {
    push(.cancelled(timer))
    // relaxed: it only counts.
    if cancellations.add(1, ordering: .relaxed).newValue % 64 == 0 { ring() }
  }

  // MARK: The thread

  private func run() {
    guard let engine else { return }
    _ = opp_thread_set_timer_slack(1)
    _ = KernelPriority.monitor(engine.privileges).apply(to: 0)
    while true {
      let rung = opp_alarms_wait(alarms)
      fetch(engine)
      if rung & (1 << Alarm.tick.rawValue) != 0 { tick(engine) }
      if rung & (1 << Alarm.watch.rawValue) != 0 {
        for lane in engine.lanes { watch(lane, engine) }
        let shortest = engine.lanes.filter { $0.lane != .background }.map(\.reserveDelay).min() ?? reserveDelay
        watchDelay.store(max(reserveDelay, shortest / 2), ordering: .relaxed)
      }
      fireTimers()
      checkWaiters()
      if checkShutdown(engine) { break }
    }
    fetch(engine)
    for timer in timers.popDue(now: .max) { timer.fire() }
    for (_, continuation) in quietWaiters { continuation.resume() }
    quietWaiters = []
    self.engine = nil
    // From here on nobody changes `apps`. relaxed: see push().
    hasEnded.store(true, ordering: .relaxed)
    for message in messages() { answerLate(message) }
  }

  /// The answer of a scheduler that is shut down; any thread, when the monitor's own has ended.
  private func answerLate(_ message: Message) {
    switch message {
    case .waitForQuiet(_, let continuation): continuation.resume()
    case .snapshot(let continuation): continuation.resume(returning: snapshot)
    case .cpuTime(let app, let continuation): continuation.resume(returning: app.statistics.cpuNanoseconds)
    case .shutDown(_, let continuation): continuation.resume(returning: [])
    case .timer(let timer): timer.fire()
    case .spawn, .ended, .ready, .reclassify, .raise, .checkWaiters, .cancelled, .added: break
    }
  }

  /// Takes what was posted, oldest first.
  private func messages() -> [Message] {
    var messages: [Message] = []
    withUnsafeMutablePointer(to: &messages) { list in
      opp_inbox_fetch(
        inbox,
        { message, context in
          let envelope = Unmanaged<Envelope>.fromOpaque(message).takeRetainedValue()
          context?.assumingMemoryBound(to: [Message].self).pointee.append(envelope.message)
        }, list)
    }
    return messages
  }

  private func fetch(_ engine: Engine) {
    for message in messages() { handle(message, engine) }
  }

  private func handle(_ message: Message, _ engine: Engine) {
    switch message {
    case .spawn(let lane):
      if opp_lane_sleeping(lane.raw) == 0 { _ = spawn(lane, engine) }
    case .ended(let worker):
      worker.lane.workers[Int(worker.slot)] = nil
      seen[ObjectIdentifier(worker)] = nil
      lookedAt[ObjectIdentifier(worker)] = nil
      live -= 1
      // It may have given back a job that it took before the queues were emptied.
      guard !engine.isClosed else { return engine.dropIfClosed() }
      if opp_lane_sleeping(worker.lane.raw) == 0 { _ = spawn(worker.lane, engine) }
      // It did not look at the queues after it gave its permit back.
      engine.wakeIfReady(worker.lane)
    case .ready(let level):
      if let lane = engine.lane(ofLevel: Int(level)) { engine.wake(lane) }
    case .reclassify:
      reclassify(engine)
    case .raise(let identity, let band):
      raise(identity, band, engine)
    case .checkWaiters:
      break
    case .waitForQuiet(let app, let continuation):
      quietWaiters.append((app, continuation))
    case .added(let app):
      // Not at each: many are made one after the other.
      if apps.count == appsToSweep {
        apps.removeAll(where: \.isGone)
        appsToSweep = 2 * max(apps.count, 16)
      }
      apps.append(app)
    case .snapshot(let continuation):
      continuation.resume(returning: snapshot)
    case .cpuTime(let app, let continuation):
      let running = engine.lanes.reduce(0) { $0 &+ cpuTimeRunning(of: app, in: $1) }
      continuation.resume(returning: app.statistics.cpuNanoseconds &+ running)
    case .timer(let timer):
      guard !timer.isOver else { break }
      timer.place = timers.insert(deadline: timer.deadline, tolerance: timer.tolerance, payload: timer)
    case .cancelled(let timer):
      if let place = timer.place { timers.cancel(place) }
    case .shutDown(let limit, let continuation):
      let deadline = opp_now_ns().saturatingAdd(UInt64(max(0, limit.clampedNanoseconds)))
      shutdown = (deadline, continuation)
      opp_alarms_set(alarms, Alarm.timers.rawValue, deadline)
    }
  }

  private var snapshot: Snapshot { Snapshot(apps: apps.filter { !$0.isGone }, timers: timers.count) }

  /// CPU time, in nanoseconds, of the slices of an app that run now.
  private func cpuTimeRunning(of app: AppCore, in lane: LaneState) -> UInt64 {
    lane.workers.reduce(0) { sum, worker in
      guard let worker, let meter = worker.report.meter, let reading = worker.report.read(),
        reading.app == app.raw || reading.app == app.runner
      else { return sum }
      var clock: UInt64 = 0
      // The meter is of the thread: what it says is of this slice only if that still runs.
      guard opp_thread_meter_cpu(meter, &clock) == 0, worker.report.isStillInside(reading) else { return sum }
      return sum &+ clock.saturatingSubtract(reading.cpuBefore)
    }
  }

  // MARK: Workers

  private func spawn(_ lane: LaneState, _ engine: Engine) -> Bool {
    let slot = lane.workers.firstIndex { $0 == nil } ?? lane.workers.count
    guard slot < Int(OPP_LANE_WORKERS), !engine.isClosed else { return false }
    let worker = Worker(engine: engine, lane: lane, slot: UInt32(slot))
    let names: [Lane: String] = [.background: "bg", .foreground: "fg", .realTime: "rt"]
    let result = opp_thread_start(
      "\(engine.configuration.name.prefix(9))-\(names[lane.lane] ?? "")\(slot)", 1 << 20,
      { Unmanaged<Worker>.fromOpaque($0.unsafelyUnwrapped).takeRetainedValue().run() },
      Unmanaged.passRetained(worker).toOpaque())
    guard result == 0 else {
      Unmanaged.passUnretained(worker).release()
      engine.logger.warning("no thread for a worker", metadata: ["lane": "\(lane.lane)", "error": "\(-result)"])
      return false
    }
    if slot == lane.workers.count { lane.workers.append(worker) } else { lane.workers[slot] = worker }
    live += 1
    return true
  }

  // MARK: Once a quantum

  private func tick(_ engine: Engine) {
    var inside = false
    let now = opp_now_ns()
    for lane in engine.lanes {
      for case let worker? in lane.workers {
        guard let reading = worker.report.read() else {
          seen[ObjectIdentifier(worker)] = nil
          continue
        }
        inside = true
        if reading.band != .background { look(at: worker, reading, now, engine) }
        if lane.demotedWait(engine.core) { makeRoomIfBlocked(worker, reading, now, engine) }
      }
      if lane.lane == .background { watch(lane, engine) }
    }
    if inside {
      armTick()
    }
    if now &- lastLimits > 1_000_000_000 {
      lastLimits = now
      engine.followLimits()
    }
  }

  /// Demotes what runs and has used up its quantum. (R-CPU-06)
  private func look(at worker: Worker, _ reading: WorkerReport.Reading, _ now: UInt64, _ engine: Engine) {
    guard let meter = worker.report.meter else { return }
    let key = ObjectIdentifier(worker)
    var usage = opp_thread_usage()
    guard opp_thread_meter_read(meter, &usage) == 0 else { return }
    let switches = opp_thread_meter_voluntary_switches(meter)
    var known =
      seen[key].flatMap { $0.sequence == reading.sequence ? $0 : nil }
      ?? Seen(
        sequence: reading.sequence, first: reading.depth, depth: reading.depth, switches: reading.switchesBefore)
    let wall = now > reading.start ? now - reading.start : 0
    let used = min(wall, usage.cpu_ns &- reading.cpuBefore)
    // Time off the CPU is what neither clock has counted. The kernel counts a wait when it is over: a thread that waits
    // for a CPU now seems to be off it by that much, one that waited as the slice began to have been on it. So a
    // thread that has not given the CPU up by itself since the last look was not blocked since, and what comes out
    // below nothing shows where nothing is.
    let uncounted = Int64(wall - used) - Int64(clamping: usage.wait_ns &- reading.waitBefore)
    known.nothing = min(known.nothing, uncounted)
    let off = UInt64(clamping: uncounted - known.nothing)
    known.offCPU = switches != known.switches ? off : min(off, known.offCPU)
    known.switches = switches
    known.judgedOff = min(known.judgedOff, known.offCPU)
    if Double(known.offCPU - known.judgedOff)
      > engine.configuration.quantum.offCPUShare * Double(max(quantum, used.saturatingSubtract(known.judgedCPU)))
    {
      (known.judgedCPU, known.judgedOff) = (used, known.offCPU)
    }
    let (cpu, offCPU) = (used.saturatingSubtract(known.judgedCPU), known.offCPU - known.judgedOff)
    defer { seen[key] = known }
    guard cpu >= quantum else { return }
    // A hog that sank into the background's lane must not keep its permit from those who live there. (law 3)
    if worker.lane.lane == .background, opp_has_ready(engine.core, worker.lane.mask) {
      replace(worker, reading, demoted: true, engine)
    }
    let base = engine.base(ofRank: UInt8(reading.rank), depth: reading.depth, band: reading.band)
    let depth = engine.accounts.depth(
      ofRunning: reading.identity, from: known.first, cpu: cpu, offCPU: offCPU, base: base, band: reading.band)
    if depth > 0 { recount(worker, reading, engine) }
    guard depth > known.depth else { return }
    let level = engine.configuration.bands.level(
      band: reading.band, rank: engine.configuration.bands.rank(base: base, depth: depth))
    _ = worker.report.setPriority(
      engine.priority(of: worker.lane.lane, level: level, depth: depth), during: reading)
    if known.depth == 0 { engine.accounts.blame(originOf: reading.identity, depth: depth) }
    worker.report.deepen(to: depth, during: reading)
    app(at: reading.app)?.statistics.add(.demotions, UInt64(depth - known.depth))
    known.depth = depth
    replace(worker, reading, demoted: true, engine)
  }

  /// A worker that was replaced because it was blocked runs again, and has used up a quantum since: it counts among the
  /// demoted, beyond the bound if need be, or as many hogs as had blocked once would run beside those that are counted.
  private func recount(_ worker: Worker, _ reading: WorkerReport.Reading, _ engine: Engine) {
    // A guest whose app has left for another lane is counted nowhere.
    guard worker.currentStanding == .detached, let app = reading.app,
      opp_app_state_read(app).band == reading.band.rawValue
    else { return }
    worker.lane.countDemoted()
    if !worker.report.isStillInside(reading) || !worker.change(from: .detached, to: .detachedDemoted) {
      uncount(worker.lane, engine)
    }
  }

  /// One demoted worker less than were counted. A worker may have lain down because of it: not one that has counted itself,
  /// which looks at the queues afterwards.
  private func uncount(_ lane: LaneState, _ engine: Engine) {
    lane.leaveDemoted()
    letAnotherWork(lane, engine)
  }

  /// A worker that is blocked makes room for demoted work that waits: what it waits for may be among that. Who has a
  /// permit does so too, where no fresh work calls for watch() to see to it.
  private func makeRoomIfBlocked(_ worker: Worker, _ reading: WorkerReport.Reading, _ now: UInt64, _ engine: Engine) {
    let (lane, standing) = (worker.lane, worker.currentStanding)
    let isCounted = standing == .demoted || standing == .detachedDemoted
    guard isCounted ? lane.isDemotedBoundReached : standing == .permit, now > reading.start,
      stayedBlocked(worker, reading, now, engine),
      now - reading.start >= LaneState.patience(workers: lane.liveWorkers, width: engine.width, delay: reserveDelay)
    else { return }
    guard isCounted else { return replaceBlocked(worker, reading, engine) }
    if worker.report.isStillInside(reading), worker.change(from: standing, to: .detached) { uncount(lane, engine) }
  }

  /// The app that owns a place of the run queue, unless it is gone.
  private func app(at place: OpaquePointer?) -> AppRecord? {
    apps.first { place != nil && !$0.isGone && ($0.place == place || $0.runner == place) }
  }

  /// Lets another worker take the place of one that is inside `reading`; false if it keeps its place.
  @discardableResult private func replace(
    _ worker: Worker, _ reading: WorkerReport.Reading, demoted: Bool, _ engine: Engine,
    urgency: LaneState.Urgency = .runs
  ) -> Bool {
    let (lane, standing) = (worker.lane, worker.currentStanding)
    guard standing == .permit || standing == .reserve else { return false }
    // Not beyond the bound in the background's lane: there they are guests.
    guard !demoted || lane.enterDemoted(lane.lane == .background ? .starts : urgency) else { return false }
    guard worker.report.isStillInside(reading), worker.detach(demoted: demoted) else {
      if demoted { uncount(lane, engine) }
      return false
    }
    letAnotherWork(lane, engine)
    return true
  }

  private func replaceBlocked(_ worker: Worker, _ reading: WorkerReport.Reading, _ engine: Engine) {
    // relaxed: a statistic.
    if replace(worker, reading, demoted: false, engine) { worker.lane.replaced.add(1, ordering: .relaxed) }
  }

  /// A place has come free: a worker for what waits, and one for what comes.
  private func letAnotherWork(_ lane: LaneState, _ engine: Engine) {
    engine.wakeIfReady(lane)
    if opp_lane_sleeping(lane.raw) == 0 { _ = spawn(lane, engine) }
  }

  // MARK: Stalls

  /// A lane in which something waits while all permits are in use: replaces workers that are blocked; if the others
  /// have all been inside their jobs for long, wakes the reserve.
  private func watch(_ lane: LaneState, _ engine: Engine) {
    let fresh = lane.mask & ~lane.demotedMask
    guard opp_has_ready(engine.core, fresh) else { return lane.setStalled(false) }
    let now = opp_now_ns()
    let progress = lane.workers.reduce(0) { $0 &+ ($1?.report.count ?? 0) }
    if progress != lane.lastProgress { lane.cpuAtProgress = nil }
    let delay = lane.learnReserveDelay(least: reserveDelay, quantum: quantum)
    let patience = LaneState.patience(workers: lane.liveWorkers, width: engine.width, delay: delay)
    var flowing = false
    var reserve: (Worker, WorkerReport.Reading)?
    for case let worker? in lane.workers {
      let standing = worker.currentStanding
      guard standing == .permit || standing == .reserve else { continue }
      guard let reading = worker.report.read(), now > reading.start, now - reading.start >= delay else {
        // Between two jobs, or inside a new one; but a reserve that is slow to start must not hide a stall.
        if standing == .permit { flowing = true }
        continue
      }
      if stayedBlocked(worker, reading, now, engine), now - reading.start >= patience {
        replaceBlocked(worker, reading, engine)
        flowing = true
      } else if worker.depth > 0, reading.band != .background,
        replace(worker, reading, demoted: true, engine)
          || hasStood(lane, now, engine) && replace(worker, reading, demoted: true, engine, urgency: .starves)
      {
        // A known hog that was beyond the bound before.
        flowing = true
      } else if standing == .reserve {
        reserve = (worker, reading)
      }
    }
    // The reserve has been stuck for a quantum too, and no job has begun or ended since the last look: it stays with
    // its job and another takes its place, within the bound of demoted workers. Not earlier: the more hogs share the
    // CPUs, the later the first has used its quantum and is known, and its kin with it.
    if !flowing, let (worker, reading) = reserve, progress == lane.lastProgress, now - reading.start >= quantum {
      replace(worker, reading, demoted: true, engine)
    }
    lane.lastProgress = progress
    lane.setStalled(!flowing && lane.lane != .background)
    if lane.isStalled, !lane.wakeReserve() { _ = spawn(lane, engine) }
    if lane.lane != .background { armWatch() }
  }

  /// Whether the lane's hogs have had the CPU for so long that each has had several quanta, and none has ended. It
  /// reads the clocks of all workers, hence once a quantum.
  private func hasStood(_ lane: LaneState, _ now: UInt64, _ engine: Engine) -> Bool {
    guard lane.cpuAtProgress == nil || now &- lane.stoodLookAt >= quantum else { return false }
    lane.stoodLookAt = now
    var total: UInt64 = 0
    for case let worker? in lane.workers {
      var cpu: UInt64 = 0
      if let meter = worker.report.meter, opp_thread_meter_cpu(meter, &cpu) == 0 { total &+= cpu }
    }
    guard let begun = lane.cpuAtProgress else {
      lane.cpuAtProgress = total
      return false
    }
    return total > begun + 4 * quantum * UInt64(lane.demotedCount + engine.width)
  }

  /// Whether the worker is blocked and has hardly run since the last look: a moment on a contended lock, such as the
  /// kernel's on the memory map, is no reason to start one more thread that contends for it.
  private func stayedBlocked(_ worker: Worker, _ reading: WorkerReport.Reading, _ now: UInt64, _ engine: Engine) -> Bool
  {
    var cpu: UInt64 = 0
    guard let meter = worker.report.meter, opp_thread_meter_cpu(meter, &cpu) == 0 else { return false }
    let last = lookedAt.updateValue(
      Look(sequence: reading.sequence, cpu: cpu, at: now), forKey: ObjectIdentifier(worker))
    guard let last, last.sequence == reading.sequence, (cpu &- last.cpu) * 20 < now &- last.at else { return false }
    switch opp_thread_meter_is_blocked(meter) {
    case OPP_BLOCKED: return true
    // Background that has no CPU holds the kernel's locks for long; more of it would only hold them longer.
    case OPP_BLOCKED_IN_KERNEL: return worker.lane.lane != .background || worker.lane.liveWorkers <= 2 * engine.width
    default: return false
    }
  }

  // MARK: Changes of band

  private func reclassify(_ engine: Engine) {
    for lane in engine.lanes {
      for case let worker? in lane.workers {
        guard let reading = worker.report.read(), let app = reading.app,
          let band = Band(rawValue: opp_app_state_read(app).band), band != reading.band
        else { continue }
        let bands = engine.configuration.bands
        let level = bands.level(band: band, rank: reading.rank)
        let served = engine.configuration.lane(of: level)
        _ = worker.report.setPriority(
          engine.priority(of: worker.lane.lane, level: level, depth: reading.depth), during: reading)
        if served != worker.lane.lane { replace(worker, reading, demoted: false, engine) }
      }
    }
  }

  private func raise(_ identity: UInt64, _ band: Band, _ engine: Engine) {
    for lane in engine.lanes {
      for case let worker? in lane.workers {
        guard let reading = worker.report.read(), reading.identity == identity, band > reading.band else { continue }
        let level = engine.configuration.bands.level(band: band, rank: reading.rank)
        _ = worker.report.setPriority(engine.priority(of: lane.lane, level: level, depth: 0), during: reading)
      }
    }
  }

  // MARK: Timers and waiters

  private func fireTimers() {
    let now = opp_now_ns()
    for timer in timers.popDue(now: now) { timer.fire() }
    let next = timers.nextFire ?? .max
    nextFire.store(next, ordering: .sequentiallyConsistent)
    if let shutdown, shutdown.deadline < next {
      opp_alarms_set(alarms, Alarm.timers.rawValue, shutdown.deadline)
    } else if next != .max {
      opp_alarms_set(alarms, Alarm.timers.rawValue, next)
    }
    // The last look, after `nextFire` was published; see add().
    if let engine { fetchTimers(engine, published: next) }
  }

  private func fetchTimers(_ engine: Engine, published: UInt64) {
    fetch(engine)
    if let next = timers.nextFire, next < published { ring() }
  }

  private func checkWaiters() {
    quietWaiters.removeAll { app, continuation in
      // Resumed meanwhile counts as an end of the wait too.
      guard app.isQuiet || !app.state.suspended else { return false }
      continuation.resume()
      return true
    }
  }

  // MARK: Shutdown

  /// True when the thread is to end.
  private func checkShutdown(_ engine: Engine) -> Bool {
    guard let shutdown else { return engine.isClosed && live == 0 }
    let expired = opp_now_ns() >= shutdown.deadline
    if !engine.isClosed {
      let ready = engine.lanes.contains { opp_has_ready(engine.core, $0.mask) }
      let inside = engine.lanes.contains { $0.workers.contains { $0?.report.read() != nil } }
      guard expired || !(ready || inside) else { return false }
      engine.close()
    }
    guard live == 0 || expired else { return false }
    let names = engine.lanes.flatMap { $0.workers }.compactMap { worker in
      app(at: worker?.report.read()?.app)?.name
    }
    self.shutdown = nil
    shutdown.continuation.resume(returning: names)
    return live == 0
  }
}

extension UInt64 {
  func saturatingSubtract(_ other: UInt64) -> UInt64 { self > other ? self - other : 0 }
}
