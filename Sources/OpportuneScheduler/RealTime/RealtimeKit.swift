internal import COpportune

/// RealtimeKit, a service that lets threads of an ordinary user into `SCHED_RR`. It is asked over D-Bus, on a
/// thread of its own: it may have to be started, which takes seconds.
enum RealtimeKit {
  /// What it answered.
  struct Answer: Sendable, Equatable {
    let isGranted: Bool
    /// Why not, for people.
    let reason: String
  }

  /// It grants this to no process that may run longer without a sleep, in microseconds. So a scheduler that
  /// hangs, its monitor included, ends by SIGXCPU.
  static let longestWithoutSleep: UInt64 = 200_000

  /// Between two questions: it answers 25 in 20 s.
  static let interval: UInt64 = 2_000_000_000
  static let patience: Int32 = 25_000

  private final class Question: Sendable {
    let thread: Int32
    let priority: KernelPriority
    let then: @Sendable (Answer) -> Void

    init(_ thread: Int32, _ priority: KernelPriority, _ then: @escaping @Sendable (Answer) -> Void) {
      self.thread = thread
      self.priority = priority
      self.then = then
    }
  }

  /// Asks for `thread` of this process; `then` is called on another thread. Where the service is there, it
  /// demands that the process's limit of real-time CPU time is low, so that is lowered first, for good.
  static func ask(
    _ thread: Int32, _ priority: KernelPriority, then: @escaping @Sendable (Answer) -> Void
  ) {
    let question = Question(thread, priority, then)
    let context = Unmanaged.passRetained(question)
    let result = opp_thread_start("opportune-kit", 0, { RealtimeKit.put($0) }, context.toOpaque())
    guard result != 0 else { return }
    context.release()
    then(Answer(isGranted: false, reason: "no thread to ask RealtimeKit: error \(-result)"))
  }

  fileprivate static func put(_ context: UnsafeMutableRawPointer?) {
    guard let context else { return }
    let question = Unmanaged<Question>.fromOpaque(context).takeRetainedValue()
    let priority = UInt32(question.priority.realTimePriority)
    let found = answer { opp_realtime_kit_look(nil, patience, $0) }
    guard found.isGranted else { return question.then(found) }
    let error = opp_rt_time_limit_lower(longestWithoutSleep)
    guard error == 0 else {
      let reason = "RLIMIT_RTTIME cannot be lowered: error \(-error)"
      return question.then(Answer(isGranted: false, reason: reason))
    }
    question.then(answer { opp_realtime_kit_ask(nil, question.thread, priority, patience, $0) })
  }

  /// Whether the service is there, for the diagnosis; starts it if it is known to the bus.
  static func look() -> Answer { answer { opp_realtime_kit_look(nil, 2000, $0) } }

  static func answer(_ ask: (UnsafeMutablePointer<CChar>) -> opp_kit_answer) -> Answer {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(OPP_KIT_REASON)) { reason in
      guard let place = reason.baseAddress else { return Answer(isGranted: false, reason: "") }
      let answer = ask(place)
      let name = String(cString: place)
      return switch answer {
      case .OPP_KIT_GRANTED: Answer(isGranted: true, reason: "")
      case .OPP_KIT_NO_BUS: Answer(isGranted: false, reason: "there is no system bus of D-Bus")
      case .OPP_KIT_SILENT: Answer(isGranted: false, reason: "the system bus does not answer")
      case .OPP_KIT_ABSENT: Answer(isGranted: false, reason: "RealtimeKit is not there (\(name))")
      case .OPP_KIT_REFUSED: Answer(isGranted: false, reason: "RealtimeKit refuses (\(name))")
      }
    }
  }
}

extension Monitor {
  /// The process may not enter the class by itself: asks for the monitor's own thread first, which must stand
  /// above all others.
  func askForClass(_ engine: Engine) {
    let priority = KernelPriority.realTimeForeground(RealTimeForeground.steps + 1)
    ask(opp_thread_id(), priority, for: nil)
  }

  /// Asks for a thread that serves the foreground, now and then.
  func askForServer(_ server: ForegroundServer) {
    let now = opp_now_ns()
    guard kitAskedAt == 0 || now - kitAskedAt >= RealtimeKit.interval else { return }
    kitAskedAt = now
    ask(server.threadID, RealTimeForeground.serverPriority, for: server)
  }

  /// Without memory it is not asked. It is asked again for a server, and not for the monitor.
  private func ask(_ thread: Int32, _ priority: KernelPriority, for server: ForegroundServer?) {
    _ = waitingThread?.give { [self] in
      RealtimeKit.ask(thread, priority) { [self] in post(.granted(server, $0)) }
    }
  }

  func granted(_ server: ForegroundServer?, _ answer: RealtimeKit.Answer, _ engine: Engine) {
    guard answer.isGranted else {
      guard server == nil else { return }
      return engine.log(
        .notice, "the foreground has no real-time class, and works without",
        [
          "reason": "\(answer.reason)",
          "remedy": "RLIMIT_RTPRIO of 3 or more, CAP_SYS_NICE, or the service rtkit",
        ])
    }
    if let server {
      // It may have left meanwhile. Then its thread has taken its own class again, or has ended.
      if let index = realTimeClass?.servers.firstIndex(where: { $0.server === server }) {
        realTimeClass?.servers[index].look.isIn = true
      }
    } else {
      realTimeClass?.policy.access = .realtimeKit
      for server in realTimeClass?.servers ?? [] { server.server.isWatched.store(true, ordering: .relaxed) }
    }
    lookAtClass(engine)
  }
}
