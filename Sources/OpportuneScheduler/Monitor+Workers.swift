internal import COpportune

/// Starts a thread of a name and a stack size, as `opp_thread_start()` does; a test's may refuse to.
typealias ThreadStarter = (
  String, Int, @convention(c) (UnsafeMutableRawPointer?) -> Void, UnsafeMutableRawPointer
) -> Int32

/// Starts workers, gives their places to others, and changes the kernel's priority of what runs.
extension Monitor {
  func spawn(_ lane: LaneState, _ engine: Engine) -> Bool {
    let slot = lane.workers.firstIndex { $0 == nil } ?? lane.workers.count
    guard lane.liveWorkers < lane.mostWorkers, !engine.isClosed else { return false }
    guard mayStart(in: lane) else {
      lane.lacksWorker = true
      return false
    }
    let worker = Worker(engine: engine, lane: lane, slot: UInt32(slot))
    let names: [Lane: String] = [.background: "bg", .foreground: "fg", .realTime: "rt"]
    let result = engine.startThread(
      "\(engine.configuration.name.prefix(9))-\(names[lane.lane] ?? "")\(slot)", 1 << 20,
      { Unmanaged<Worker>.fromOpaque($0.unsafelyUnwrapped).takeRetainedValue().run() },
      Unmanaged.passRetained(worker).toOpaque())
    guard result == 0 else {
      Unmanaged.passUnretained(worker).release()
      lacked(-result, lane, engine)
      return false
    }
    lane.started(at: opp_now_ns())
    if slot == lane.workers.count { lane.workers.append(worker) } else { lane.workers[slot] = worker }
    live += 1
    return true
  }

  /// There was no thread for a worker, or no memory.
  func lacked(_ error: Int32, _ lane: LaneState, _ engine: Engine) {
    threadError = error
    provenWorkers = live
    shareThreads(engine)
    guard lane.putOffStart(at: opp_now_ns()) else { return }
    engine.log(
      .warning, "no thread for a worker",
      ["lane": "\(lane.lane)", "error": "\(error)", "workers": "\(live)", "limits": "\(threadLimits)"])
  }

  /// Tries again where workers could not be started, if something still waits for them. Returns when to come again, or
  /// `.max`.
  func startLacking(_ engine: Engine) -> UInt64 {
    let now = opp_now_ns()
    for lane in engine.lanes where lane.lacksWorker && now >= lane.startsFrom {
      lane.lacksWorker = false
      if opp_lane_sleeping(lane.raw) == 0, opp_has_ready(engine.core, lane.mask) { _ = spawn(lane, engine) }
    }
    return nextStart(engine)
  }

  func nextStart(_ engine: Engine) -> UInt64 {
    engine.lanes.reduce(.max) { $1.lacksWorker ? min($0, $1.startsFrom) : $0 }
  }

  /// Lets another worker take the place of one that is inside `reading`; false if it keeps its place.
  @discardableResult func replace(
    _ worker: Worker, _ reading: WorkerReport.Reading, demoted: Bool, _ engine: Engine,
    why: opp_demotion = .OPP_DEMOTION_FOUND
  ) -> Bool {
    let lane = worker.lane
    // Without somebody to take the place each job that came would look for him in vain.
    guard worker.report.isStillInside(reading), opp_lane_sleeping(lane.raw) > 0 || mayStart(in: lane) else {
      return false
    }
    // Not beyond the bound in the background's lane: there they are guests.
    let reason = lane.lane == .background ? .OPP_DEMOTION_KNOWN : why
    let handed = demoted ? opp_worker_sink(worker.raw, reason) : opp_worker_hand_off(worker.raw)
    if handed != .OPP_HANDED_NOT { letAnotherWork(lane, engine) }
    return handed == .OPP_HANDED_OFF
  }

  func replaceBlocked(_ worker: Worker, _ reading: WorkerReport.Reading, _ engine: Engine) {
    // relaxed: a statistic.
    if replace(worker, reading, demoted: false, engine) { worker.lane.replaced.add(1, ordering: .relaxed) }
  }

  /// A place has come free, or others may have lain down since it was counted for a moment: a worker for what waits, and one
  /// for what comes.
  func letAnotherWork(_ lane: LaneState, _ engine: Engine) {
    engine.wakeIfReady(lane)
    if opp_lane_sleeping(lane.raw) == 0 { _ = spawn(lane, engine) }
  }

  /// The app that owns a place of the run queue, unless it is gone.
  func app(at place: OpaquePointer?) -> AppRecord? {
    apps.first { place != nil && !$0.isGone && ($0.place == place || $0.runner == place) }
  }

  // MARK: Changes of band

  func reclassify(_ engine: Engine) {
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

  func raise(_ identity: UInt64, _ band: Band, _ engine: Engine) {
    for lane in engine.lanes {
      for case let worker? in lane.workers {
        guard let reading = worker.report.read(), reading.identity == identity, band > reading.band else { continue }
        let level = engine.configuration.bands.level(band: band, rank: reading.rank)
        _ = worker.report.setPriority(engine.priority(of: lane.lane, level: level, depth: 0), during: reading)
      }
    }
  }
}
