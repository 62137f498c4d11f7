internal import OpportuneBase

/// Who may be in the real-time foreground, and when that is to be looked at again. Pure: times, in
/// nanoseconds, are given by the caller, who carries out the answers.
struct ClassPolicy: Sendable {
  let quantum: RealTimeQuantum
  private(set) var budget: RealTimeBudget
  /// Whether the process may use the class, and how.
  var access = RealTimeForegroundStatistics.Access.refused
  /// Nobody enters it any more.
  var isGivenUp = false

  init(quantum: RealTimeQuantum, share: Double, cpus: Int) {
    self.quantum = quantum
    budget = RealTimeBudget(share: share, cpus: cpus)
  }

  /// Counts CPU time that jobs have used in the class on that CPU.
  mutating func add(_ time: UInt64, on cpu: Int, at now: UInt64) { budget.add(time, on: cpu, at: now) }

  /// Whether jobs may be in it now, and threads that serve them.
  mutating func admitsJobs(at now: UInt64) -> Bool { access == .roundRobin && admitsServers(at: now) }
  mutating func admitsServers(at now: UInt64) -> Bool {
    access != .refused && !isGivenUp && budget.isLeft(at: now)
  }

  /// In what time the class is looked at again, whoever is in it; `.max` is never.
  ///
  /// - Parameters:
  ///   - wasOpen: whether jobs were admitted until now.
  ///   - isOpen: whether they are by now.
  func nextLook(wasOpen: Bool, isOpen: Bool, at now: UInt64) -> UInt64 {
    guard !isOpen else { return .max }
    // A worker may have read that it was open, and begin just now.
    if wasOpen { return quantum.quantum }
    guard access == .roundRobin, !isGivenUp else { return .max }
    return max(1, budget.returns(after: now) - now)
  }

  // MARK: Jobs

  /// A job in the class, at the look from which on it has used no CPU time. One for each worker.
  struct JobLook: Sendable {
    private let sequence: UInt64
    private let cpu: UInt64
    private let since: UInt64

    fileprivate init(_ job: Job, _ now: UInt64) {
      (sequence, cpu, since) = (job.sequence, job.cpu, now)
    }

    fileprivate func goesOn(in job: Job) -> Bool { sequence == job.sequence && cpu == job.cpu }
    fileprivate func lasts(until now: UInt64) -> UInt64 { now.saturatingSubtract(since) }
  }

  /// A job that is in the class.
  struct Job: Sendable {
    /// Differs from job to job of the worker.
    var sequence: UInt64
    var start: UInt64
    /// CPU time of the thread as the job began, and now.
    var cpuBefore: UInt64
    var cpu: UInt64
    /// CPU time of the job, by both clocks.
    func used(at now: UInt64) -> UInt64 {
      min(cpu.saturatingSubtract(cpuBefore), now.saturatingSubtract(start))
    }
  }

  /// Looks at a job, where jobs are admitted or no more.
  func judge(_ job: Job, _ last: inout JobLook?, isOpen: Bool, at now: UInt64) -> RealTimeQuantum.Verdict {
    let look = last.flatMap { $0.goesOn(in: job) ? $0 : nil } ?? JobLook(job, now)
    last = nil
    guard isOpen,
      case .stays(let time) = quantum.judge(used: job.used(at: now), still: look.lasts(until: now))
    else { return .leaves }
    last = look
    return .stays(time)
  }

  // MARK: Servers

  /// A thread that serves the foreground, from look to look.
  struct ServerLook: Sendable {
    private var cpu: UInt64
    private var at: UInt64
    /// In the class, by the last change of it that the kernel agreed to.
    var isIn = false
    /// It may be, by how it runs.
    fileprivate(set) var mayBeIn = true

    init(cpu: UInt64, at now: UInt64) { (self.cpu, at) = (cpu, now) }

    fileprivate mutating func look(cpu: UInt64, at now: UInt64, by quantum: RealTimeQuantum) -> UInt64 {
      let (used, elapsed) = (cpu.saturatingSubtract(self.cpu), now.saturatingSubtract(at))
      mayBeIn = quantum.keepsServer(used: used, elapsed: elapsed, isIn: mayBeIn)
      // A reading that was too short to judge goes on.
      if elapsed >= quantum.quantum / 2 { (self.cpu, at) = (cpu, now) }
      return used
    }
  }

  /// Looks at a server whose thread has used that much CPU time by now.
  mutating func look(_ server: inout ServerLook, cpu: UInt64, at now: UInt64) {
    let used = server.look(cpu: cpu, at: now, by: quantum)
    if server.isIn { budget.addAnywhere(used, at: now) }
  }

  enum Move: Sendable, Equatable { case none, enters, leaves, asks }

  /// What is to be done about a server, where servers are admitted or not.
  func move(_ server: ServerLook, isOpen: Bool) -> Move {
    let isIn = isOpen && server.mayBeIn
    if isIn == server.isIn { return .none }
    // RealtimeKit alone may let it in.
    return !isIn ? .leaves : access == .roundRobin ? .enters : .asks
  }

  /// In what time the server is looked at again: who is out for how it runs comes back once a look finds that
  /// it sleeps again.
  func nextLook(at server: ServerLook) -> UInt64 { server.mayBeIn ? .max : quantum.patience }
}
