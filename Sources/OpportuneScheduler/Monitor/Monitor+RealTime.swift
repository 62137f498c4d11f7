internal import COpportune
import Glibc
import Synchronization

/// The bounds of the real-time foreground, by ``ClassPolicy``: looks at jobs in the class about when their
/// quantum ends, and at what the class has used. There is one look a quantum at most while such jobs run, and
/// none otherwise.
extension Monitor {
  /// The monitor's own part of the class.
  struct ClassState {
    var policy: ClassPolicy
    /// What was read of each CPU's counter.
    var read: [UInt64]
    var servers: [Server] = []

    init(_ realTime: RealTimeForeground) {
      policy = ClassPolicy(quantum: realTime.policy, share: realTime.share, cpus: realTime.cpus)
      read = [UInt64](repeating: 0, count: realTime.cpus)
    }
  }

  struct Server {
    let server: ForegroundServer
    var look: ClassPolicy.ServerLook
  }

  /// The monitor's thread begins. Without a waiting thread nothing is let into the class.
  func beginClass(_ engine: Engine) {
    guard let realTime = engine.realTime else { return }
    var state = ClassState(realTime)
    state.policy.isGivenUp = !startWaitingThread(engine)
    realTimeClass = state
  }

  /// Called once the monitor will wait for nobody. Only once it also stands above the class is that opened:
  /// otherwise a job that does not end could keep it from taking the class away.
  func openClass(_ engine: Engine) {
    guard realTimeClass?.policy.isGivenUp == false else { return }
    let own = KernelPriority.monitor(
      engine.configuration.pools, engine.privileges, aboveForeground: true)
    guard engine.privileges.canUseRR, own.apply(to: 0) else { return askForClass(engine) }
    realTimeClass?.policy.access = .roundRobin
    lookAtClass(engine)
  }

  private func startWaitingThread(_ engine: Engine) -> Bool {
    let waiting = WaitingThread()
    let error = waiting.map {
      -$0.start(engine.configuration.name.prefix(9) + "-wait", by: engine.startThread)
    }
    if error == 0 {
      waitingThread = waiting
      return true
    }
    engine.log(
      .warning, "the foreground has no real-time class, and works without",
      ["reason": "no thread that starts threads", "error": "\(error ?? ENOMEM)"])
    return false
  }

  /// A worker begins a job in the class, or a server has woken: a look follows within a quantum.
  func armClass() { opp_alarms_arm(alarms, Alarm.realTime.rawValue, classQuantum) }

  func lookAtClass(_ engine: Engine) {
    // Taken out while it changes, so that its arrays are not copied.
    guard let realTime = engine.realTime, var state = realTimeClass.take() else { return }
    let now = opp_now_ns()
    for cpu in state.read.indices {
      let used = realTime.used(on: cpu)
      if used != state.read[cpu] { state.policy.add(used &- state.read[cpu], on: cpu, at: now) }
      state.read[cpu] = used
    }
    for index in state.servers.indices {
      guard let cpu = state.servers[index].server.cpuTime else { continue }
      state.policy.look(&state.servers[index].look, cpu: cpu, at: now)
    }
    let wasOpen = realTime.isOpen.load(ordering: .relaxed)
    let isOpen = state.policy.admitsJobs(at: now)
    if wasOpen != isOpen { realTime.isOpen.store(isOpen, ordering: .relaxed) }  // see isOpen
    if wasOpen, !isOpen { realTime.exhausted.add(1, ordering: .relaxed) }  // a statistic
    var next = state.policy.nextLook(wasOpen: wasOpen, isOpen: isOpen, at: now)
    for pool in engine.pools where pool.pool == .foreground {
      for case let worker? in pool.workers {
        next = min(next, look(inClass: worker, now, isOpen: isOpen, &state, realTime, engine))
      }
    }
    let mayServe = state.policy.admitsServers(at: now)
    for index in state.servers.indices {
      move(&state.servers[index], state.policy.move(state.servers[index].look, isOpen: mayServe), engine)
      next = min(next, state.policy.nextLook(at: state.servers[index].look))
    }
    realTimeClass = state
    if next != .max { opp_alarms_arm(alarms, Alarm.realTime.rawValue, next) }
  }

  /// Looks at one worker. Returns in what time it must be looked at again.
  private func look(
    inClass worker: Worker, _ now: UInt64, isOpen: Bool, _ state: inout ClassState,
    _ realTime: RealTimeForeground, _ engine: Engine
  ) -> UInt64 {
    guard let reading = worker.report.read(), reading.isRealTime,
      !worker.report.hasLeftClass(during: reading), let cpu = worker.report.cpuTime
    else { return .max }
    let job = ClassPolicy.Job(
      sequence: reading.sequence, start: reading.start, cpuBefore: reading.cpuBefore, cpu: cpu)
    if case .stays(let time) = state.policy.judge(job, &worker.notes.inClass, isOpen: isOpen, at: now) {
      return time
    }
    guard worker.report.leaveClass(during: reading) else { return .max }
    // Where it has another class for another reason, that counts.
    if worker.report.changed == nil,
      !worker.report.setPriority(engine.priority(of: .foreground), during: reading),
      worker.report.isStillInside(reading)
    {
      failed(&state, engine)
    }
    realTime.left.add(1, ordering: .relaxed)  // a statistic
    realTime.add(job.used(at: now), on: worker.report.meter.map { opp_thread_meter_cpu_number($0) } ?? -1)
    return .max
  }

  /// The kernel does not let a thread out of the class: nobody enters it any more.
  private func failed(_ state: inout ClassState, _ engine: Engine) {
    guard !state.policy.isGivenUp else { return }
    state.policy.isGivenUp = true
    engine.log(
      .warning, "a thread cannot leave the real-time class, which is given up",
      ["remedy": "do not change the nice value of the process while it runs"])
  }

  // MARK: Servers

  func add(_ server: ForegroundServer, _ engine: Engine) {
    guard let access = realTimeClass?.policy.access else { return }
    server.isWatched.store(access != .refused, ordering: .relaxed)  // publishes nothing
    let look = ClassPolicy.ServerLook(cpu: server.cpuTime ?? 0, at: opp_now_ns())
    realTimeClass?.servers.append(Server(server: server, look: look))
    lookAtClass(engine)
  }

  func remove(_ server: ForegroundServer) {
    realTimeClass?.servers.removeAll { $0.server === server }
  }

  /// All leave the class, for good: the monitor will not stand above it any more.
  func giveUpClass(_ engine: Engine) {
    realTimeClass?.policy.isGivenUp = true
    lookAtClass(engine)
  }

  /// The monitor's thread ends: nobody would take the class from a server any more.
  func endClass(_ engine: Engine) {
    for server in realTimeClass?.servers ?? [] { _ = server.server.apply(engine.priority(of: .foreground)) }
    realTimeClass?.servers = []
  }

  private func move(_ server: inout Server, _ move: ClassPolicy.Move, _ engine: Engine) {
    switch move {
    case .none: break
    case .enters: if server.server.apply(RealTimeForeground.serverPriority) { server.look.isIn = true }
    case .leaves: if server.server.apply(engine.priority(of: .foreground)) { server.look.isIn = false }
    case .asks: askForServer(server.server)
    }
  }
}
