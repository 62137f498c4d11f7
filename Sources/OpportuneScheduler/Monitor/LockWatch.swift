internal import OpportuneBase

/// Which jobs of the foreground are asked what they wait for.
///
/// What a thread waits for is in `/proc`, and dear beside its CPU clock. So only that is read at each look;
/// who was off the CPU for ``patience`` since a look is asked. With looks ``interval`` apart a job is asked
/// within both together, 0.9 ms, of its leaving the CPU, and 0.1 ms later in the first look at it, since the
/// clock is not read as each job begins. Who waits elsewhere, or for a CPU, cannot begin to wait for a lock
/// before it has run, and is asked again once its clock has moved. After ``resting`` of that it is looked at
/// once a quantum only, so that what is blocked for long costs nothing. While only such jobs of the
/// foreground are inside as have been lowered, looks are ``lateInterval`` apart, and while none is, no look
/// is armed (docs/decisions/0047). Of a queue for one lock a look asks but ``most``. A plain value, one for
/// each worker: clocks in, questions out.
package struct LockWatch: Sendable {
  /// Between two looks, in nanoseconds, while fresh foreground jobs run beside others that stand lower.
  package static let interval: UInt64 = 700_000
  /// The same while none of the foreground's is fresh. Those have waited for CPUs for longer already.
  package static let lateInterval: UInt64 = 2_500_000
  /// How long a worker must have run jobs of the foreground, in nanoseconds, for it to disarm the look when
  /// it sleeps. That and to arm it again are two system calls, a look some thirty times as much.
  package static let leastToDisarm: UInt64 = 50_000
  /// How long a job must have been off the CPU since a look until it is asked, in nanoseconds.
  package static let patience: UInt64 = 200_000
  /// How long a job that waits elsewhere, or for a lock of a stranger, is looked at each time, in
  /// nanoseconds.
  package static let resting: UInt64 = 10_000_000
  /// How many jobs a look asks, unless who holds a lock is helped. Whoever is in a queue tells of its lock,
  /// and to ask thirty takes a third of a CPU, by which the queue grows (docs/decisions/0050).
  package static let most = 4

  /// A job, at the look from which on its time off the CPU counts.
  private struct Last {
    let job: UInt64
    let cpu: UInt64
    let at: UInt64
    /// When it was asked during that time.
    var asked: UInt64?
    /// The clock when it was seen not to wait for a lock.
    var elsewhere: UInt64?
    /// It waits for a lock that no worker holds. Who holds it may change.
    var isStranger = false
  }

  /// What kinds of jobs are inside workers.
  package struct Kinds: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    package static let fresh = Kinds(rawValue: 1)
    /// Of the foreground, and lowered: one may wait for a lock, or hold one.
    package static let lowered = Kinds(rawValue: 2)
    /// Of the background, or at rest: one may hold a lock.
    package static let low = Kinds(rawValue: 4)

    package init(_ band: Band, depth: Int) {
      self = band == .background ? .low : depth > 0 ? .lowered : .fresh
    }

    /// Whether a fresh job may wait for a lock of one that stands lower.
    package var mayHoldUpFresh: Bool { contains(.fresh) && self != .fresh }
    /// The same of one that has been lowered: another may have sunk deeper.
    package var mayHoldUpLowered: Bool { contains(.lowered) }
  }

  private var last: Last?

  package init() {}

  /// Whether a look may leave the job out, but once a quantum.
  package func rests(_ job: UInt64, now: UInt64) -> Bool {
    guard let last, last.job == job, last.elsewhere != nil || last.isStranger else { return false }
    return now.saturatingSubtract(last.at) > Self.resting
  }

  /// Whether a look at the job needs its CPU clock: one that has just begun cannot have been off for long.
  package func needsClock(_ job: UInt64, start: UInt64, now: UInt64) -> Bool {
    last?.job == job || now.saturatingSubtract(start) >= Self.patience
  }

  /// A look at a job.
  ///
  /// - Parameters:
  ///   - job: differs from job to job of the worker.
  ///   - start: when it began.
  ///   - cpuBefore: the CPU time of its thread then, or somewhat before, in nanoseconds.
  ///   - cpu: the same now.
  ///   - now: nanoseconds of the clock of `start`.
  /// - Returns: whether it is among those to ask what they wait for; see ``choose(_:)``.
  package mutating func look(
    _ job: UInt64, start: UInt64, cpuBefore: UInt64, cpu: UInt64, now: UInt64
  ) -> Bool {
    let known = last.flatMap { $0.job == job ? $0 : nil }
    var base = known ?? Last(job: job, cpu: cpuBefore, at: start)
    if base.elsewhere == cpu { return false }
    let (elapsed, used) = (now.saturatingSubtract(base.at), cpu.saturatingSubtract(base.cpu))
    let asks = elapsed.saturatingSubtract(used) >= Self.patience
    if !asks { base = Last(job: job, cpu: cpu, at: now) }
    (base.elsewhere, base.isStranger) = (nil, false)
    last = base
    return asks
  }

  /// Since when the job has waited without being asked.
  package var waitsSince: UInt64 { last.map { $0.asked ?? $0.at } ?? 0 }

  /// Whom of those jobs to ask at this look: ``most`` of them, who have waited longest without being asked.
  /// So each is within as many looks as it takes to go around. Of each say then ``wasAsked(now:)``, and of
  /// one that waits for no lock ``waitsElsewhere(_:cpu:now:)``.
  package static func choose<Job: Comparable>(_ jobs: [(job: Job, since: UInt64)]) -> [Job] {
    jobs.sorted { ($0.since, $0.job) < ($1.since, $1.job) }.prefix(most).map(\.job)
  }

  package mutating func wasAsked(now: UInt64) { last?.asked = now }

  /// The job, whose clock was `cpu` at the look, waits for no lock, or for a CPU.
  package mutating func waitsElsewhere(_ job: UInt64, cpu: UInt64, now: UInt64) {
    if last?.job == job { last = Last(job: job, cpu: cpu, at: now, elsewhere: cpu) }
  }

  /// The job waits for a lock that no worker of the scheduler holds.
  package mutating func waitsForStranger(_ job: UInt64) {
    if last?.job == job { last?.isStranger = true }
  }
}
