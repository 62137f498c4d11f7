internal import COpportune
import Glibc

/// The signature of `opp_thread_start()`, with a thread name and a stack size; a test may pass one that
/// fails.
typealias ThreadStarter = (
  String, Int, @convention(c) (UnsafeMutableRawPointer?) -> Void, UnsafeMutableRawPointer
) -> Int32

/// Starting workers.
extension Monitor {
  func spawn(_ pool: PoolState, _ engine: Engine) -> Bool {
    let slot = pool.workers.firstIndex { $0 == nil } ?? pool.workers.count
    guard pool.liveWorkers < pool.mostWorkers, !engine.isClosed else { return false }
    guard mayStart(in: pool) else {
      pool.lacksWorker = true
      return false
    }
    let worker = Worker(engine: engine, pool: pool, slot: UInt32(slot))
    let names: [WorkerPool: String] = [.background: "bg", .foreground: "fg", .realTime: "rt"]
    let name = "\(engine.configuration.name.prefix(9))-\(names[pool.pool] ?? "")\(slot)"
    // Counted first: it may end before it is known that it has begun.
    add(worker, to: pool)
    let error =
      if let waitingThread {
        waitingThread.give { [self] in
          let error = start(worker, name, engine)
          if error != 0 { post(.notStarted(worker, error)) }
        } ? 0 : ENOMEM
      } else {
        start(worker, name, engine)
      }
    if error != 0 { notStarted(worker, error, engine) }
    return error == 0
  }

  /// Any thread. Returns 0, or the kernel's error.
  private func start(_ worker: Worker, _ name: String, _ engine: Engine) -> Int32 {
    let result = engine.startThread(
      name, 1 << 20, { Unmanaged<Worker>.fromOpaque($0.unsafelyUnwrapped).takeRetainedValue().run() },
      Unmanaged.passRetained(worker).toOpaque())
    if result != 0 { Unmanaged.passUnretained(worker).release() }
    return -result
  }

  private func add(_ worker: Worker, to pool: PoolState) {
    pool.started(at: opp_now_ns())
    let slot = Int(worker.slot)
    if slot == pool.workers.count { pool.workers.append(worker) } else { pool.workers[slot] = worker }
    live += 1
  }

  /// A worker that was counted has ended, or never began.
  func remove(_ worker: Worker) {
    worker.pool.workers[Int(worker.slot)] = nil
    worker.report.stop()
    live -= 1
  }

  func notStarted(_ worker: Worker, _ error: Int32, _ engine: Engine) {
    remove(worker)
    lacked(error, worker.pool, engine)
  }

  /// A worker could not be started, for want of a thread or of memory.
  func lacked(_ error: Int32, _ pool: PoolState, _ engine: Engine) {
    threads.refused(error, live: live)
    shareThreads(engine)
    guard pool.putOffStart(at: opp_now_ns()) else { return }
    engine.log(
      .warning, "no thread for a worker",
      ["pool": "\(pool.pool)", "error": "\(error)", "workers": "\(live)", "limits": "\(threads.limits)"])
  }

  /// Tries failed starts of workers again, if something still waits for them. Returns when to call this
  /// again, or `.max`.
  func startLacking(_ engine: Engine) -> UInt64 {
    let now = opp_now_ns()
    for pool in engine.pools where pool.lacksWorker && now >= pool.startsFrom {
      pool.lacksWorker = false
      if opp_pool_sleeping(pool.raw) > 0 {
        engine.carryOut(opp_pool_needs_leader_still(pool.raw), in: pool)
      } else if opp_has_ready(engine.core, pool.mask) || opp_pool_awaits_leader(pool.raw) {
        _ = spawn(pool, engine)
      }
    }
    return nextStart(engine)
  }

  func nextStart(_ engine: Engine) -> UInt64 {
    engine.pools.reduce(.max) { $1.lacksWorker ? min($0, $1.startsFrom) : $0 }
  }

  /// The app that owns this `opp_app` of the C core, unless the app has ended.
  func app(of queue: OpaquePointer?) -> AppRecord? {
    apps.first { queue != nil && !$0.isGone && ($0.raw == queue || $0.runner == queue) }
  }
}
