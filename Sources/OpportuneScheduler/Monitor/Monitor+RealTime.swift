internal import COpportune
import Glibc
import Synchronization

/// The bounds of the real-time foreground: looks at jobs in the class about when their quantum ends, and at
/// what the class has used. There is one look a quantum at most while such jobs run, and none otherwise.
extension Monitor {
  /// The monitor's own part of the class.
  struct ClassState {
    var budget: RealTimeBudget
    /// What was read of each CPU's counter.
    var read: [UInt64]
    var access = RealTimeForegroundStatistics.Access.refused
    var jobs: [ObjectIdentifier: ClassLook] = [:]
    var servers: [Server] = []
    /// Nobody enters it any more.
    var isGivenUp = false

    init(_ realTime: RealTimeForeground) {
      budget = RealTimeBudget(share: realTime.share, cpus: realTime.cpus)
      read = [UInt64](repeating: 0, count: realTime.cpus)
    }
  }

  /// A job in the class, at the look from which on it has used no CPU time.
  struct ClassLook {
    let sequence: UInt64
    let cpu: UInt64
    let since: UInt64
  }

  struct Server {
    let server: ForegroundServer
    var cpu: UInt64
    var at: UInt64
    /// In the class, by the last change of it that the kernel agreed to.
    var isIn = false
    /// It may be, by how it runs.
    var mayBeIn = true
  }

  /// The monitor's thread begins. Without a waiting thread nothing is let into the class.
  func beginClass(_ engine: Engine) {
    guard let realTime = engine.realTime else { return }
    var state = ClassState(realTime)
    state.isGivenUp = !startWaitingThread(engine)
    realTimeClass = state
  }

  /// Called once the monitor will wait for nobody. Only once it also stands above the class is that opened:
  /// otherwise a job that does not end could keep it from taking the class away.
  func openClass(_ engine: Engine) {
    guard realTimeClass?.isGivenUp == false else { return }
    let own = KernelPriority.monitor(
      engine.configuration.pools, engine.privileges, aboveForeground: true)
    guard engine.privileges.canUseRR, own.apply(to: 0) else { return askForClass(engine) }
    realTimeClass?.access = .roundRobin
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
      if used != state.read[cpu] { state.budget.add(used &- state.read[cpu], on: cpu, at: now) }
      state.read[cpu] = used
    }
    var next = UInt64.max
    for index in state.servers.indices { count(&state.servers[index], &state.budget, now, realTime.policy) }
    let wasOpen = realTime.isOpen.load(ordering: .relaxed)
    let isOpen = state.access == .roundRobin && !state.isGivenUp && state.budget.isLeft(at: now)
    if wasOpen != isOpen { realTime.isOpen.store(isOpen, ordering: .relaxed) }  // see isOpen
    if wasOpen, !isOpen { realTime.exhausted.add(1, ordering: .relaxed) }  // a statistic
    for pool in engine.pools where pool.pool == .foreground {
      for case let worker? in pool.workers {
        next = min(next, look(inClass: worker, now, mayStay: isOpen, &state, realTime, engine))
      }
    }
    let mayServe = state.access != .refused && !state.isGivenUp && state.budget.isLeft(at: now)
    for index in state.servers.indices {
      next = min(
        next, admit(&state.servers[index], mayServe, state.access, realTime.policy, engine))
    }
    if wasOpen, !isOpen {
      // A worker may have read that it was open, and begin just now.
      next = min(next, realTime.policy.quantum)
    } else if state.access == .roundRobin, !isOpen, !state.isGivenUp {
      next = min(next, max(1, state.budget.returns(after: now) - now))
    }
    realTimeClass = state
    if next != .max { opp_alarms_arm(alarms, Alarm.realTime.rawValue, next) }
  }

  /// Looks at one worker. Returns in what time it must be looked at again.
  private func look(
    inClass worker: Worker, _ now: UInt64, mayStay: Bool, _ state: inout ClassState,
    _ realTime: RealTimeForeground, _ engine: Engine
  ) -> UInt64 {
    let key = ObjectIdentifier(worker)
    guard let reading = worker.report.read(), reading.isRealTime,
      !worker.report.hasLeftClass(during: reading), let cpu = worker.report.cpuTime
    else {
      state.jobs[key] = nil
      return .max
    }
    let used = min(cpu.saturatingSubtract(reading.cpuBefore), now.saturatingSubtract(reading.start))
    let last = state.jobs[key].flatMap { $0.sequence == reading.sequence && $0.cpu == cpu ? $0 : nil }
    let known = last ?? ClassLook(sequence: reading.sequence, cpu: cpu, since: now)
    if mayStay, case .stays(let time) = realTime.policy.judge(used: used, still: now - known.since) {
      state.jobs[key] = known
      return time
    }
    state.jobs[key] = nil
    guard worker.report.leaveClass(during: reading) else { return .max }
    // Where it has another class for another reason, that counts.
    if worker.report.changed == nil,
      !worker.report.setPriority(engine.priority(of: .foreground), during: reading),
      worker.report.isStillInside(reading)
    {
      failed(&state, engine)
    }
    realTime.left.add(1, ordering: .relaxed)  // a statistic
    realTime.add(used, on: worker.report.meter.map { opp_thread_meter_cpu_number($0) } ?? -1)
    return .max
  }

  /// The kernel does not let a thread out of the class: nobody enters it any more.
  private func failed(_ state: inout ClassState, _ engine: Engine) {
    guard !state.isGivenUp else { return }
    state.isGivenUp = true
    engine.log(
      .warning, "a thread cannot leave the real-time class, which is given up",
      ["remedy": "do not change the nice value of the process while it runs"])
  }

  // MARK: Servers

  func add(_ server: ForegroundServer, _ engine: Engine) {
    guard let access = realTimeClass?.access else { return }
    server.isWatched.store(access != .refused, ordering: .relaxed)  // publishes nothing
    realTimeClass?.servers.append(Server(server: server, cpu: server.cpuTime ?? 0, at: opp_now_ns()))
    lookAtClass(engine)
  }

  func remove(_ server: ForegroundServer) {
    realTimeClass?.servers.removeAll { $0.server === server }
  }

  /// All leave the class, for good: the monitor will not stand above it any more.
  func giveUpClass(_ engine: Engine) {
    realTimeClass?.isGivenUp = true
    lookAtClass(engine)
  }

  /// The monitor's thread ends: nobody would take the class from a server any more.
  func endClass(_ engine: Engine) {
    for server in realTimeClass?.servers ?? [] { _ = server.server.apply(engine.priority(of: .foreground)) }
    realTimeClass?.servers = []
  }

  private func count(
    _ server: inout Server, _ budget: inout RealTimeBudget, _ now: UInt64, _ policy: RealTimeQuantum
  ) {
    guard let cpu = server.server.cpuTime else { return }
    let (used, elapsed) = (cpu.saturatingSubtract(server.cpu), now.saturatingSubtract(server.at))
    if server.isIn { budget.addAnywhere(used, at: now) }
    server.mayBeIn = policy.keepsServer(used: used, elapsed: elapsed, isIn: server.mayBeIn)
    // A reading that was too short to judge goes on.
    if elapsed >= policy.quantum / 2 { (server.cpu, server.at) = (cpu, now) }
  }

  private func admit(
    _ server: inout Server, _ mayServe: Bool, _ access: RealTimeForegroundStatistics.Access,
    _ policy: RealTimeQuantum, _ engine: Engine
  ) -> UInt64 {
    let isIn = mayServe && server.mayBeIn
    if isIn != server.isIn {
      if !isIn {
        if server.server.apply(engine.priority(of: .foreground)) { server.isIn = false }
      } else if access == .roundRobin {
        if server.server.apply(RealTimeForeground.serverPriority) { server.isIn = true }
      } else {
        askForServer(server.server)
      }
    }
    // Who is out for how it runs comes back once a look finds that it sleeps again.
    return server.mayBeIn ? .max : policy.patience
  }
}
