internal import COpportune
internal import COpportuneRuntime
import Synchronization

/// A thread of a lane.
///
/// While it works it holds a permit of its lane; the monitor may take the permit away when the worker is stuck inside
/// a job, so that another can take its place. It may also run without: one job at a time in reserve, or demoted jobs
/// within their bound.
///
/// What others read of it (the monitor, and `App.setBand`) is in `report`, published under a sequence number: odd
/// while it is inside a job.
final class Worker: @unchecked Sendable {
  /// Why the worker is awake.
  enum Standing: UInt8, AtomicRepresentable {
    case none, permit, reserve, demoted
    /// Inside a job, its permit or its place among the demoted taken by the monitor; with the second it is counted among
    /// the demoted.
    case detached, detachedDemoted
  }

  let engine: Engine
  let lane: LaneState
  let slot: UInt32
  let report = WorkerReport()

  // Guarded by being the thread's own.
  private let standing = Atomic<Standing>(.none)
  /// How often it has got a standing.
  private let turns = Atomic<UInt64>(0)
  /// Whether it runs a job on trial, which counts among its lane's; who sets it back takes it from there.
  private let trial = Atomic<Bool>(false)
  private var taker: OpaquePointer?
  private(set) var source: OpaquePointer?
  // No access to either encloses another, and asking the runtime about it costs each slice some 30 ns.
  @exclusivity(unchecked) private var usage = SliceUsage()
  @exclusivity(unchecked) private var batch = StatisticsBatch()
  private var applied: KernelPriority
  private var picks: UInt32 = 0
  /// The demotion with which the running job began.
  private var depthAtBegin = 0
  /// When the last job ended, if the next is taken right after it: a clock reading saved.
  private var lastEnd: UInt64?
  private var turn = WorkerTurn()
  /// Searches in vain, one after the other, and how many of the next are left out for that.
  private var vainSearches = 0
  private var searchesToSkip = 0
  private(set) var identity: UInt64 = 0
  private(set) var app: AppCore?
  private var isClosure = false
  private var hasAccount = false
  /// Whether the running slice has queued something that this worker takes next, and woke nobody for.
  private var hasLeft = false
  /// With which the running slice's task is about to be suspended.
  private var sleep: SleepTimer?

  init(engine: Engine, lane: LaneState, slot: UInt32) {
    self.engine = engine
    self.lane = lane
    self.slot = slot
    applied = engine.priority(of: lane.lane)
  }

  /// The worker that the calling thread is, if it is one of `engine`.
  static func current(of engine: Engine) -> Worker? {
    guard let pointer = opp_thread_worker() else { return nil }
    let worker = Unmanaged<Worker>.fromOpaque(pointer).takeUnretainedValue()
    return worker.engine === engine ? worker : nil
  }

  /// The demotion of the running job, which what it submits inherits.
  var depth: Int { report.depth }

  func isInside(_ app: AppCore) -> Bool { self.app === app }

  /// Whether the running slice's task has been suspended already, so that the slice is about to end: what it enqueues
  /// now it will find itself.
  var isLeaving: Bool { !isClosure && !opp_runtime_is_in_task() }

  /// Whether this worker itself takes what its slice has left behind at `level`, so that nobody need be woken: the first such
  /// job, of a level that it may take. The slice must end now, or call ``goesOn()``; where the runtime does neither, as a default
  /// actor's that goes on with its messages, the monitor wakes somebody within a quantum. (R-CPU-01)
  func takesNext(_ level: Int32, in lane: LaneState) -> Bool {
    guard self.lane === lane, !hasLeft else { return false }
    // relaxed: who takes the permit away looks what waits itself.
    switch standing.load(ordering: .relaxed) {
    case .permit: break
    case .demoted where lane.demotedMask & 1 << UInt64(level) != 0: break
    default: return false
    }
    hasLeft = true
    return true
  }

  /// The slice goes on after all.
  func goesOn() {
    guard hasLeft else { return }
    hasLeft = false
    engine.wakeIfReady(lane)
  }

  /// The running slice's task goes to sleep, unless it is another's: an actor's slice, or a strand's, goes on with others, and
  /// so does that of a task within which another was begun at once.
  func willSleep(_ timer: SleepTimer) {
    if Accounts.isTask(identity), opp_runtime_current_task_id() == identity { sleep = timer }
  }

  /// The sleep is over and its task runs: in this slice, if it never left it.
  func hasSlept(_ timer: SleepTimer) {
    if sleep === timer { sleep = nil }
  }

  /// What a task that leaves a default actor now has used there: an actor's slice has no identity, and is charged to
  /// nobody else.
  func cpuTimeOnActor(until now: UInt64) -> UInt64 {
    identity == 0 ? usage.part(until: now, meter: report.meter) : 0
  }

  // MARK: The thread

  /// The body of the thread.
  func run() {
    opp_thread_set_worker(Unmanaged.passUnretained(self).toOpaque())
    _ = opp_thread_set_timer_slack(1)
    applied.applyToNewThread()
    var error: Int32 = 0
    let node = engine.topology.currentNode
    source = opp_thread_source(engine.core, node, &error)
    if let source { taker = engine.topology.withDistances(from: node) { opp_taker_create(engine.core, source, $0) } }
    report.start(threadID: opp_thread_id(), meter: opp_thread_meter_create())
    usage.anchor(report.meter)
    if taker != nil { loop() }
    batch.flush()
    if let taker { opp_taker_destroy(taker) }
    opp_thread_set_worker(nil)
    engine.monitor.post(.ended(self))
  }

  private func loop() {
    while true {
      switch standing.load(ordering: .relaxed) {
      case .permit:
        guard isFit else {
          if leave(.permit) { opp_lane_leave(lane.raw) }
          return
        }
        // Also where the lane has become narrower.
        if opp_lane_is_over(lane.raw) || !takeAndRun(from: lane.takeable) && !search() {
          if leave(.permit) { opp_lane_leave(lane.raw) }
          if !rest() { return }
        }
      case .reserve:
        // In reserve it runs on only while nobody else came free.
        guard isFit else {
          if leave(.reserve) { lane.reserveRests() }
          return
        }
        if !takeAndRun(from: lane.mask & ~lane.demotedMask) || !lane.isStalled, leave(.reserve) {
          lane.reserveRests()
        }
      case .demoted:
        if !takeAndRun(from: lane.demotedMask), leave(.demoted) { lane.leaveDemoted() }
      case .none, .detached, .detachedDemoted:
        settle(currentStanding)
        if !restore() { return }
        if opp_lane_enter(lane.raw) {
          stand(.permit)
        } else if lane.demotedMask & opp_ready_levels(engine.core, lane.demotedMask) != 0, lane.enterDemoted() {
          stand(.demoted)
        } else if !rest() {
          return
        }
      }
    }
  }

  /// From `.none`: it may take jobs now.
  private func stand(_ new: Standing) {
    // With another standing it takes one job, or hogs: its own queue is left to those with a permit.
    if new == .permit, let taker { opp_taker_join(taker, UInt32(lane.lane.rawValue) + 1) }
    standing.store(new, ordering: .relaxed)
    turns.store(turns.load(ordering: .relaxed) &+ 1, ordering: .releasing)  // see idleTurn
  }

  /// From `held` to `.none`. False if the monitor took the standing away meanwhile; it has then settled what it meant.
  private func leave(_ held: Standing) -> Bool {
    // seqCst: before the look whether it is to ring the monitor; see rest(). release: see idleTurn.
    let (exchanged, original) = standing.compareExchange(
      expected: held, desired: .none, ordering: .sequentiallyConsistent)
    if !exchanged { settle(original) }
    return exchanged
  }

  /// After a job, or instead of one: what the monitor did to the standing.
  private func settle(_ original: Standing) {
    guard original == .detached || original == .detachedDemoted else { return }
    // The monitor may have gone from the one to the other since. seqCst: as in leave().
    if standing.exchange(.none, ordering: .sequentiallyConsistent) == .detachedDemoted { lane.leaveDemoted() }
  }

  /// Looks on for two or three microseconds before the permit is given back, one worker of a lane at a time: what is queued
  /// meanwhile needs no waking, which would cost whoever queues it more than that. Seldom where that was in vain before, as
  /// between the answers of a disk: there the time is the whole cost.
  private func search() -> Bool {
    guard searchesToSkip == 0 else {
      searchesToSkip -= 1
      return false
    }
    guard lane.beginSearch() else { return false }
    defer { lane.endSearch() }
    for _ in 0..<100 {
      if opp_has_ready(engine.core, lane.takeable) {
        vainSearches = 0
        return true
      }
      opp_pause()
    }
    vainSearches = min(vainSearches + 1, 4)
    searchesToSkip = (1 << vainSearches) - 1
    return false
  }

  /// Sleeps until there is something to do. False when the lane was closed.
  private func rest() -> Bool {
    guard let taker else { return false }
    opp_taker_rest(taker)
    leaveQueueToOthers()
    lastEnd = nil
    batch.flush()
    app = nil
    if engine.isSurplus(lane) { return false }
    opp_lane_lie_down(lane.raw, slot)
    // The last look, after the permit was given back and the bit was set; see lane.c, "No lost wake-up".
    var woken = opp_woken.OPP_WOKEN_NOTHING
    if opp_has_ready(engine.core, lane.takeable) {
      woken = opp_lane_wake_up(lane.raw, slot)
      // Something waits for a permit, and whoever queued it may have met a free one and nobody to give it to.
      if woken == .OPP_WOKEN_NOTHING, lane.lane != .background { engine.monitor.armWatch() }
    }
    if woken == .OPP_WOKEN_NOTHING {
      // Its standing was given back before (seqCst), and the monitor looks at that after the draining has begun.
      if engine.isDraining { engine.monitor.ring() }
      woken = opp_lane_sleep(lane.raw, slot)
    }
    usage.anchor(report.meter)
    turn = WorkerTurn()
    switch woken {
    case .OPP_WOKEN_PERMIT:
      stand(.permit)
      return true
    case .OPP_WOKEN_RESERVE:
      // It may have been woken for that.
      if lane.takeSurplus() {
        lane.reserveRests()
        return false
      }
      stand(.reserve)
      return true
    default:
      return false
    }
  }

  // MARK: One job

  private func takeAndRun(from levels: UInt64) -> Bool {
    guard let taker else { return false }
    var taken = opp_taken(
      job: opp_job(), app: engine.nowhere, context: nil, level: 0, rank: 0, band: 0, stolen: false)
    picks &+= 1
    if let now = lastEnd, turn.isOver(at: now) { opp_taker_end_turn(taker) }
    // No level waits for ever: every sixteenth pick goes to another of the levels that have something, in turn.
    if picks % 16 == 0, let level = engine.levelInTurn(picks / 16, among: levels),
      opp_take(taker, 1 << UInt64(level), &taken)
    {
      execute(taken)
      return true
    }
    guard opp_take(taker, levels, &taken) else { return false }
    execute(taken)
    return true
  }

  private func execute(_ taken: opp_taken) {
    guard let context = taken.context else { return }
    // The job holds it, and this worker from begin() on.
    Unmanaged<AppCore>.fromOpaque(context)._withUnsafeGuaranteedRef { execute(taken, of: $0) }
  }

  @inline(__always) private func execute(_ taken: opp_taken, of app: AppCore) {
    let entry = JobEntry(taken.job)
    let identity = entry.identity
    let band = Band(rawValue: taken.band) ?? .background
    let depth = max(engine.accounts.depth(ofTaken: identity), engine.depth(ofRank: taken.rank, band: band))
    if depth > 0, band != .background, moveDown(entry, app, taken, depth: depth, band: band) { return }
    begin(entry, app, taken, identity, band, depth)
    switch entry.kind {
    case .task:
      let job = unsafeBitCast(entry.pointer, to: UnownedJob.self)
      job.runSynchronously(on: app.unownedExecutor)
    case .closure:
      run(Unmanaged<Closure>.fromOpaque(entry.pointer))
    case .strand:
      Unmanaged<Strand>.fromOpaque(entry.pointer).takeRetainedValue().run(on: self)
    case .object:
      Unmanaged<QueuedObject>.fromOpaque(entry.pointer).takeRetainedValue().run(on: self)
    }
    end(entry, taken)
  }

  /// Runs a closure, the app's own or a strand's: it is no task, and yet not about to end.
  func run(_ closure: Unmanaged<Closure>) {
    isClosure = true
    closure.takeRetainedValue().run()
    isClosure = false
  }

  /// A job that was queued before it was known for a hog goes to where it belongs, so that it neither goes before
  /// fresh work nor round the bound of demoted workers.
  private func moveDown(_ entry: JobEntry, _ app: AppCore, _ taken: opp_taken, depth: Int, band: Band) -> Bool {
    guard engine.depth(ofRank: taken.rank, band: band) == 0, let source else { return false }
    let rank = UInt8(engine.configuration.bands.rank(base: Int(taken.rank), depth: depth))
    // The job may end elsewhere before this thread goes on.
    let held = Unmanaged.passRetained(app)
    defer { held.release() }
    return app.push(entry, to: taken.app, rank: rank, source: source, by: self)
  }

  private func begin(
    _ entry: JobEntry, _ app: AppCore, _ taken: opp_taken, _ identity: UInt64, _ band: Band, _ depth: Int
  ) {
    let start = lastEnd ?? opp_now_ns()
    lastEnd = nil
    if self.app !== app || batch.band != band {
      batch.flush()
      self.app = app
      batch.count(for: app.statistics, in: band)
    }
    self.identity = identity
    hasLeft = false
    depthAtBegin = depth
    hasAccount = engine.accounts.begin(identity, at: start)
    if let waited = entry.waited(until: start) { app.statistics.waited(microseconds: waited, in: band) }
    batch.began(stolen: taken.stolen)
    turn.servesOwn = !taken.stolen
    usage.began(at: start)
    // In the background lane demoted foreground work is one among equals.
    let isDemoted = depth > 0 && lane.demotedMask != 0
    if isDemoted { startDemoted(level: taken.level, depth: depth) } else if !isUndemoted { _ = restore() }
    report.begin(
      identity: identity, app: taken.app, band: band, rank: taken.rank, depth: depth, start: start,
      usage: usage)
    engine.monitor.armTick()
  }

  /// Fresh work keeps its permits: demoted work runs beside them, at its own kernel priority. What is held back for its origin
  /// may be as short as fresh work is, and would wait for a CPU behind that origin's hogs: it is on trial first, at the
  /// lane's own, until the monitor has seen it use the CPU for as long as the spare worker's delay.
  private func startDemoted(level: UInt8, depth: Int) {
    if standing.load(ordering: .relaxed) == .permit,
      depth == 1 ? lane.enterDemoted(below: lane.roomForLoweredOnce) : lane.enterDemoted()
    {
      // It never stands nowhere with a job in hand.
      if change(from: .permit, to: .demoted) {
        opp_lane_leave(lane.raw)
        leaveQueueToOthers()
      } else {
        // The monitor has given the permit to another, who may have found the bound reached. The job's end settles it.
        lane.leaveDemoted()
      }
      engine.wakeIfReady(lane)
    }
    if depth == 1, engine.accounts.mayBeShort(identity), lane.beginTrial(most: engine.width) {
      // relaxed: the thread's own; the monitor takes it back only while it sees this job run.
      trial.store(true, ordering: .relaxed)
      engine.monitor.armWatch()
      if !isUndemoted { _ = restore() }
      return
    }
    let priority = engine.priority(of: lane.lane, level: Level(known: level), depth: depth)
    if priority != applied, priority.apply(to: 0) { applied = priority }
  }

  /// Whether the job runs at the lane's own kernel priority until it has shown what it is.
  var isOnTrial: Bool { trial.load(ordering: .relaxed) }

  /// The worker's at the job's end, or the monitor's when it has lowered the job. If that has ended just then and another is on
  /// trial already, that one is not counted: one more may begin.
  func endTrial() {
    // relaxed: one of the two takes it; nothing else depends on it.
    if trial.exchange(false, ordering: .relaxed) { lane.endTrial() }
  }

  private func end(_ entry: JobEntry, _ taken: opp_taken) {
    let time = opp_now_ns()
    lastEnd = time
    let depth = report.depth
    let (cpu, offCPU) = usage.ended(at: time, meter: report.meter)
    if let changed = report.end() { applied = changed }
    if isOnTrial { endTrial() }
    batch.ended(cpu: cpu)
    if depth > 0, cpu >= UInt64(engine.configuration.quantum.quantumNanoseconds) { lane.takeExtraRoom() }
    // A task that sleeps was idle from then on, though this thread may have been kept off the CPU since.
    let sleep = self.sleep.take()
    let idleFrom = sleep?.began ?? time
    let band = Band(rawValue: taken.band) ?? .background
    if usage.shouldCharge {
      let base = engine.base(ofRank: taken.rank, depth: depth, band: band)
      engine.accounts.charge(
        identity, cpu: usage.charge, offCPU: offCPU, at: idleFrom, from: depthAtBegin, to: depth, base: base,
        band: band, statistics: app?.statistics)
    } else {
      engine.accounts.endedSoon(identity, at: hasAccount ? idleFrom : nil)
    }
    // It is queued again already, and nobody could know then what the slice had used.
    if let sleep, sleep.hasFired.load(ordering: .relaxed) {
      engine.accounts.hasBeenIdle(
        identity, for: sleep.deadline.saturatingSubtract(sleep.began), band: band, statistics: app?.statistics)
    }
    let now = standing.load(ordering: .relaxed)
    if now == .permit {
      lane.setStalled(false)
      report.addOrdinary(cpu: cpu)
    } else {
      settle(now)
    }
    if let taker, opp_taker_should_rest(taker) { opp_taker_rest(taker) }
  }

  /// What it has queued waits no longer for this worker, which sleeps or is busy elsewhere, before others look at it. The
  /// worker's own thread, or the monitor's, whose word may come when the worker has a permit again: a preference until it
  /// gets the next.
  private func leaveQueueToOthers() {
    if let taker { opp_taker_join(taker, 0) }
  }

  // MARK: Kernel priority

  /// Whether it may run fresh work. Without privilege a thread that was lowered cannot be raised again: it ends, and
  /// the monitor starts another.
  private var isFit: Bool { isUndemoted || restore() }

  private var isUndemoted: Bool { applied == engine.priority(of: lane.lane) }

  /// Back to the lane's own priority. False where the kernel refuses.
  private func restore() -> Bool {
    let own = engine.priority(of: lane.lane)
    if applied == own { return true }
    guard own.apply(to: 0) else { return false }
    applied = own
    return true
  }

  // MARK: The monitor's

  /// Takes the permit from a worker that is inside a job. False where it held none.
  func detach(demoted: Bool) -> Bool {
    for held in [Standing.permit, .reserve] where change(from: held, to: demoted ? .detachedDemoted : .detached) {
      if held == .permit { opp_lane_leave(lane.raw) } else { lane.reserveRests() }
      leaveQueueToOthers()
      return true
    }
    return false
  }

  func change(from held: Standing, to new: Standing) -> Bool {
    standing.compareExchange(expected: held, desired: new, ordering: .acquiringAndReleasing).exchanged
  }

  /// Once it has ended: false where memory was too short for it to begin.
  var hasWorked: Bool { taker != nil }

  var currentStanding: Standing { standing.load(ordering: .relaxed) }

  /// nil while it may have a job in hand, begun or not; else a number that is another once it may have had one again.
  var idleTurn: UInt64? {
    // acquiring, in this order: who reads the number of a standing finds that standing, or what followed it.
    let turn = turns.load(ordering: .acquiring)
    // seqCst: see leave(). acquire: what its last job queued is seen.
    return standing.load(ordering: .sequentiallyConsistent) == .none ? turn : nil
  }
}
