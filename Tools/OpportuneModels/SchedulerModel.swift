import OpportuneBase

/// The guarantees of a scheduler for jobs, over plain lists. Each job runs once, or is cancelled once by the
/// shutdown. No job of an app that is suspended and quiet runs. A strand's jobs run one after the other, in
/// the order of pushes that follow one another.
///
/// Events are reported by many threads. `@unchecked Sendable`: everything is guarded by `lock`.
package final class SchedulerModel: @unchecked Sendable {
  package enum Kind: Sendable { case closure, task }

  private struct Job {
    let kind: Kind
    let app: Int
    let strand: Int?
    /// The apps that must run for it to end, its own among them.
    let needs: Set<Int>
    /// The moments before it was queued and after.
    let pushing: Int
    var pushed: Int?
    var runs = false
    var isOver = false
    var isCancelled = false
  }

  private let lock = Lock()
  private var jobs: [Job] = []
  private var byStrand: [Int: [Int]] = [:]
  private var inside: [Int: String] = [:]
  private var suspended: Set<Int> = []
  private var quiet: Set<Int> = []
  private var moment = 0
  private var isShuttingDown = false
  private var found: [String] = []

  package init() {}

  package var problems: [String] { lock.withLock { found } }
  package var jobCount: Int { lock.withLock { jobs.count } }
  package func count(of kind: Kind, in app: Int, cancelled: Bool = false) -> Int {
    lock.withLock { jobs.count { $0.kind == kind && $0.app == app && (!cancelled || $0.isCancelled) } }
  }
  /// Jobs that are not over; those that may run, or all.
  package func open(all: Bool = false) -> [Int] {
    lock.withLock {
      jobs.indices.filter { !jobs[$0].isOver && (all || jobs[$0].needs.isDisjoint(with: suspended)) }
    }
  }

  private func expect(_ holds: Bool, _ problem: @autoclosure () -> String) {
    if !holds { found.append(problem()) }
  }

  private func next() -> Int {
    moment += 1
    return moment
  }

  // MARK: Jobs

  /// A job is about to be queued.
  package func submits(_ kind: Kind, app: Int, strand: Int? = nil, needs: Set<Int> = []) -> Int {
    lock.withLock {
      jobs.append(Job(kind: kind, app: app, strand: strand, needs: needs.union([app]), pushing: next()))
      if let strand { byStrand[strand, default: []].append(jobs.count - 1) }
      return jobs.count - 1
    }
  }

  package func submitted(_ job: Int) { lock.withLock { jobs[job].pushed = next() } }

  /// It was not taken, and is over.
  package func refused(_ job: Int) {
    lock.withLock {
      expect(isShuttingDown, "job \(job) is refused before the shutdown")
      expect(!jobs[job].runs, "job \(job) is refused and runs")
      jobs[job].isOver = true
    }
  }

  package func begins(_ job: Int) {
    lock.withLock {
      let known = jobs[job]
      expect(!known.runs, "job \(job) runs twice")
      expect(!known.isOver, "job \(job) runs after it was cancelled or refused")
      jobs[job].runs = true
      mayRun(known, "job \(job)")
      guard let strand = known.strand else { return }
      enter(strand, "job \(job)")
      for other in byStrand[strand] ?? [] where !jobs[other].runs && !jobs[other].isOver {
        if let pushed = jobs[other].pushed, pushed < known.pushing {
          found.append("job \(job) overtakes job \(other) on strand \(strand)")
        }
      }
      byStrand[strand]?.removeAll { jobs[$0].runs || jobs[$0].isOver }
    }
  }

  /// A task goes on after a suspension.
  package func goesOn(_ job: Int) { lock.withLock { mayRun(jobs[job], "job \(job)") } }

  package func ends(_ job: Int) {
    lock.withLock {
      expect(!jobs[job].isOver, "job \(job) ends twice")
      jobs[job].isOver = true
      if let strand = jobs[job].strand { inside[strand] = nil }
    }
  }

  package func cancelled(_ job: Int) {
    lock.withLock {
      expect(isShuttingDown, "job \(job) is cancelled before the shutdown")
      expect(!jobs[job].runs && !jobs[job].isOver, "job \(job) is cancelled though it is over, or runs")
      jobs[job].isOver = true
      jobs[job].isCancelled = true
    }
  }

  private func mayRun(_ job: Job, _ name: String) {
    // What is left of tasks at a shutdown goes on elsewhere.
    if isShuttingDown, job.kind == .task { return }
    expect(!quiet.contains(job.app), "\(name) of the suspended app\(job.app) runs")
  }

  // MARK: Strands

  /// An actor's method begins on a strand, and ends.
  package func enters(_ strand: Int, of job: Int) { lock.withLock { enter(strand, "job \(job)'s call") } }
  package func leaves(_ strand: Int) { lock.withLock { inside[strand] = nil } }

  private func enter(_ strand: Int, _ name: String) {
    if let other = inside[strand] { found.append("\(name) runs on strand \(strand) beside \(other)") }
    inside[strand] = name
  }

  // MARK: Apps

  package func suspends(_ app: Int) { lock.withLock { _ = suspended.insert(app) } }
  /// From now on nothing of it may run.
  package func isQuiet(_ app: Int) { lock.withLock { _ = quiet.insert(app) } }
  package func resumes(_ app: Int) {
    lock.withLock {
      suspended.remove(app)
      quiet.remove(app)
    }
  }
  package func shutsDown() { lock.withLock { isShuttingDown = true } }
}
