import OpportuneBase

/// What runs in a window.
enum WindowKind: String, Sendable {
  /// Foreground beside background (or hogs): what is measured.
  case beside
  /// The same foreground with nothing beside it.
  case foregroundAlone = "foreground alone"
  /// The same background (or hogs) with no foreground, for what it could do.
  case backgroundAlone = "background alone"
}

/// One window, before it runs. Times in nanoseconds.
struct WindowPlan: Sendable {
  var scenario: Scenario
  var kind: WindowKind
  var duration: Nanoseconds
  /// Seed of the arrivals; the same for all contenders of a repeat.
  var seed: UInt64
  var cores: Int
  /// Iterations of `SpinWork` per microsecond.
  var rate: Double
}

/// What a window gave.
struct WindowOutcome: Sendable {
  var begin: Nanoseconds
  var end: Nanoseconds
  var samples: [Sample]
  var slices: [Slice]
  var refused: Int
  var wasInterrupted: Bool
}

/// Runs one window on the calling thread.
struct WindowRunner {
  static let slice: Nanoseconds = 100_000_000

  let plan: WindowPlan
  let meter: NoiseMeter
  let isInterrupted: @Sendable () -> Bool

  func run(_ contender: any Contender) throws -> WindowOutcome {
    try contender.start(ContenderSetup(cores: plan.cores, hasHogs: plan.scenario.hurtsItself))
    defer { Self.blocking { await contender.stop() } }
    let state = WindowState()
    let begin = SystemClock.now() + (plan.scenario.hogs?.variant ?? .linked).head
    let end = begin + plan.duration
    let log = SampleLog(capacity: capacity)
    var load = RunningLoad()
    var slices: [Slice] = []
    do {
      if plan.kind != .foregroundAlone { try startBackground(contender, state, into: &load) }
      if plan.kind != .backgroundAlone {
        let streams = streams(contender, state)
        let own = plan.kind == .beside ? ownChains(contender, state) : []
        load.threads.append(
          try SystemThread(named: "generator") {
            for chain in own { chain.startLinked() }
            LoadGenerator(state: state, log: log).run(streams, from: begin, until: end)
          })
      }
      slices = sample(state, from: begin, until: end)
    } catch {
      try finish(contender, state, load)
      throw error
    }
    let actualEnd = min(SystemClock.now(), max(end, slices.last?.end.time ?? end))
    try finish(contender, state, load)
    return WindowOutcome(
      begin: begin, end: actualEnd, samples: log.samples(), slices: slices,
      refused: state.refused.load(ordering: .relaxed),
      wasInterrupted: isInterrupted())
  }

  /// Threads and pipes to wait for once the jobs have ended.
  private struct RunningLoad {
    var threads: [SystemThread] = []
    var blockers: Blockers?
  }

  private func finish(_ contender: any Contender, _ state: WindowState, _ load: RunningLoad) throws {
    state.isStopping.store(true, ordering: .releasing)
    guard state.drain() else {
      throw BenchError(
        .workLost,
        "\(contender.name) in \(plan.scenario.name): \(state.outstanding.load(ordering: .relaxed)) accepted jobs "
          + "had not ended 30 s after the window")
    }
    for thread in load.threads { thread.join() }
    load.blockers?.finish()
  }

  /// Reads the counters every 100 ms until the end, or until Ctrl-C.
  private func sample(_ state: WindowState, from begin: Nanoseconds, until end: Nanoseconds) -> [Slice] {
    var slices: [Slice] = []
    SystemClock.sleep(until: begin)
    var last = meter.read(state)
    while SystemClock.now() < end && !isInterrupted() {
      SystemClock.sleep(until: min(end, last.time + Self.slice))
      let reading = meter.read(state)
      slices.append(Slice(begin: last, end: reading))
      last = reading
    }
    return slices
  }

  private func startBackground(
    _ contender: any Contender, _ state: WindowState, into load: inout RunningLoad
  ) throws(BenchError) {
    let scenario = plan.scenario
    if let chains = scenario.background {
      for _ in 0..<chains.count {
        chain(chains, state, sharesLock: scenario.sharesLock, contender.submitBackground).startLinked()
      }
    }
    if let chains = scenario.hogs {
      for _ in 0..<chains.count {
        let chain = chain(chains, state, contender.submitForegroundHog)
        switch chains.variant {
        case .linked: chain.startLinked()
        case .once: chain.startOnce()
        case .outside: load.threads.append(try chain.startOutside())
        case .yielding: chain.startYielding(with: contender)
        case .sameThread where plan.kind == .beside: break  // the generator's own
        case .sameThread: chain.startLinked()
        }
      }
    }
    if scenario.blockers > 0 {
      load.blockers = try Blockers(count: scenario.blockers, contender: contender, state: state)
    }
  }

  /// The chains that the interactive jobs' own thread begins.
  private func ownChains(_ contender: any Contender, _ state: WindowState) -> [Chain] {
    guard let chains = plan.scenario.hogs, chains.variant == .sameThread else { return [] }
    return (0..<chains.count).map { _ in chain(chains, state, contender.submitForegroundHog) }
  }

  private func chain(
    _ chains: Scenario.Chains, _ state: WindowState, sharesLock: Bool = false,
    _ submit: @escaping @Sendable (@escaping Job) -> Bool
  ) -> Chain {
    Chain(
      state: state, link: UInt64(chains.link * plan.rate), chunk: UInt64(200 * plan.rate),
      touchesMemory: plan.scenario.touchesMemory, sharesLock: sharesLock, submit: submit)
  }

  private func streams(_ contender: any Contender, _ state: WindowState) -> [LoadStream] {
    let (touchesMemory, sharesLock) = (plan.scenario.touchesMemory, plan.scenario.sharesLock)
    return plan.scenario.streams.enumerated().map { index, stream in
      let iterations = UInt64(stream.work * plan.rate)
      return LoadStream(
        schedule: ArrivalSchedule(
          mean: stream.interval, jitter: stream.jitter, seed: plan.seed &+ UInt64(index)),
        burst: stream.burst == .one ? 1 : plan.cores,
        submit: stream.isSecondApp ? contender.submitSecondForeground : contender.submitForeground
      ) {
        let work = { state.sink.store(SpinWork.burn(iterations), ordering: .relaxed) }
        if sharesLock { state.shared.withLock { _ in work() } } else { work() }
        if touchesMemory { MemoryTraffic.run(mappedBytes: 64 << 10, blocks: 8) }
      }
    }
  }

  /// Room for every interactive job of the window, with the shortest gaps.
  private var capacity: Int {
    let microseconds = Double(plan.duration) / 1000
    let arrivals = plan.scenario.streams.reduce(0.0) { total, stream in
      let shortest = max(1, stream.interval - stream.jitter)
      return total + (microseconds / shortest + 1) * Double(stream.burst == .one ? 1 : plan.cores)
    }
    return Int(arrivals) + 16
  }

  /// Waits on this thread, which belongs to no executor, for an asynchronous step.
  private static func blocking(_ body: @escaping @Sendable () async -> Void) {
    let gate = Gate()
    Task.detached {
      await body()
      gate.open()
    }
    gate.wait()
  }
}
