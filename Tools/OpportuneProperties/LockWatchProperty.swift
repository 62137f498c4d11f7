import OpportuneBase
import OpportuneFuzz
import OpportuneScheduler

/// Random jobs that run, wait for locks and wait elsewhere, over virtual time, against what ``LockWatch``
/// promises.
struct LockWatchProperty: DrawnProperty {
  let name = "lock-watch"
  let summary =
    "Whoever waits for a lock is among those to ask at the second look; a look asks four at most, and goes around "
    + "all; who waits elsewhere is asked again only once it has run."
  let head = 1
  let grain = 3
  /// The code under test; other code in tests of the judge.
  var look: @Sendable (inout LockWatch, UInt64, UInt64, UInt64, UInt64, UInt64) -> Bool = {
    $0.look($1, start: $2, cpuBefore: $3, cpu: $4, now: $5)
  }
  var choose: @Sendable ([(job: Int, since: UInt64)]) -> [Int] = { LockWatch.choose($0) }

  private enum Doing { case running, locked, elsewhere }

  private struct Job {
    var watch = LockWatch()
    var number: UInt64 = 1
    var start: UInt64 = 0
    var cpuBefore: UInt64 = 0
    var cpu: UInt64 = 0
    var doing = Doing.running
    /// The looks since it has last run.
    var looks = 0
    /// The looks at which it was to be asked, and was not, and how many there were to ask at most.
    var passedOver = 0
    var mostBeside = 0
    /// It ran at the last look, and was not to be asked any more.
    var isSettled = false
    /// Its clock when it was found to wait elsewhere, or to run.
    var elsewhereAt: UInt64?
  }

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    generator.bytes(head + grain * Int.random(in: 1...300, using: &generator))
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var (head, steps) = parts(of: input)
    var jobs = [Job](repeating: Job(), count: 1 + head.below(40))
    var now: UInt64 = 0
    for var bytes in steps {
      // Some change, mostly one; then time passes until a look.
      let (first, count) = (bytes.below(jobs.count), bytes.below(8) == 0 ? jobs.count : 1)
      let what = bytes.below(6)
      for at in first..<min(jobs.count, first + count) { Self.change(&jobs[at], what, now) }
      now += LockWatch.interval
      for at in jobs.indices where jobs[at].doing == .running {
        jobs[at].cpu += LockWatch.interval
        (jobs[at].looks, jobs[at].passedOver, jobs[at].mostBeside) = (0, 0, 0)
      }
      log.note("at \(now / 1000) us: \(jobs.map { "\($0.doing)".prefix(1) }.joined())")
      try lookAtAll(&jobs, now, &log)
    }
  }

  private static func change(_ job: inout Job, _ what: Int, _ now: UInt64) {
    switch what {
    case 0, 1: job.doing = .locked
    case 2: job.doing = .elsewhere
    case 3:
      job = Job(watch: job.watch, number: job.number + 1, start: now, cpuBefore: job.cpu, cpu: job.cpu)
    case 4:
      // It runs a little, and waits for something again.
      job.cpu += 1000
      job.doing = job.doing == .elsewhere ? .locked : .elsewhere
      (job.looks, job.passedOver, job.mostBeside) = (0, 0, 0)
    default: job.doing = .running
    }
  }

  private func lookAtAll(
    _ jobs: inout [Job], _ now: UInt64, _ log: inout StepLog
  ) throws(Violation) {
    var suspects: [Int] = []
    for at in jobs.indices {
      let job = jobs[at]
      let isSuspect = look(&jobs[at].watch, job.number, job.start, job.cpuBefore, job.cpu, now)
      if isSuspect { suspects.append(at) }
      if job.doing == .running {
        // What it has waited before counts until it was asked.
        if isSuspect, job.isSettled { throw Violation("thread \(at) runs, and is to be asked") }
        jobs[at].isSettled = !isSuspect
        continue
      }
      jobs[at].looks += 1
      jobs[at].isSettled = false
      let isKnown = job.elsewhereAt == job.cpu
      if isKnown, isSuspect { throw Violation("thread \(at) is asked again, and has not run") }
      if !isKnown, !isSuspect, jobs[at].looks > 1 {
        throw Violation("thread \(at) waits for \(jobs[at].looks) looks, and is not to be asked")
      }
    }
    let asked = choose(suspects.map { ($0, jobs[$0].watch.waitsSince) })
    for at in asked { jobs[at].watch.wasAsked(now: now) }
    log.add(": asks \(asked) of \(suspects.count)")
    guard asked.count <= LockWatch.most, Set(asked).count == asked.count, Set(asked).isSubset(of: suspects)
    else { throw Violation("\(asked) are asked, of \(suspects)") }
    for at in suspects {
      guard !asked.contains(at) else {
        (jobs[at].passedOver, jobs[at].mostBeside) = (0, 0)
        guard jobs[at].doing != .locked else { continue }
        jobs[at].isSettled = jobs[at].doing == .running
        jobs[at].elsewhereAt = jobs[at].cpu
        jobs[at].watch.waitsElsewhere(jobs[at].number, cpu: jobs[at].cpu, now: now)
        continue
      }
      jobs[at].passedOver += 1
      jobs[at].mostBeside = max(jobs[at].mostBeside, suspects.count)
      // Twice around: who was known to wait elsewhere may come before it once.
      let most = 2 * ((jobs[at].mostBeside + LockWatch.most - 1) / LockWatch.most)
      if jobs[at].passedOver > most {
        throw Violation("thread \(at) was passed over \(jobs[at].passedOver) times, \(most) are possible")
      }
    }
  }
}
