import COpportune
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneScheduler

/// A child has one thread, and may wait for ever for a lock of the runtime that another thread held. So these
/// tests fork in a separate process, in which no other test runs.
@Suite(.bounded, .timeLimit(.minutes(3))) struct ForkTests {
  // R-CARD-07
  @Test func childOfAForkIsRefused() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let scheduler = try makeScheduler(workers: 1)
      let app = try scheduler.makeApp(named: "app")
      try app.submit {}
      let status = try await statusOfChild {
        do throws(SchedulerError) {
          try app.submit {}
          return 1
        } catch {
          return error.code == .forked ? 0 : 2
        }
      }
      require(status == 0, "a submission is refused, not \(status)")
      let answer = try await app.task { 1 }.value
      require(answer == 1, "the parent goes on")
      try await scheduler.shutdown()
      exit(7)
    }
  }

  // R-CARD-07
  @Test func childOfAForkWaitsForNobody() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let scheduler = try makeScheduler(workers: 1)
      let app = try scheduler.makeApp(named: "app")
      let strand = try app.makeStrand(named: "strand")
      let release = try await app.hold()
      app.suspend()  // with a job inside: the child sees it suspending for ever
      // All that the child will call, once in the parent: what the runtime makes for a first call it makes
      // under locks, and the child would wait for ever for one that another thread had as it was made.
      let (old, oldApp, oldStrand) = try await shutDownScheduler()
      _ = refusals(old, oldApp, oldStrand)
      _ = await scheduler.statistics()
      let status = try await statusOfChild { refusals(scheduler, app, strand) }
      require(
        status == 0, "in the high byte, which call did not refuse; 14: it waited until the alarm: \(status)")
      release.raise()
      app.resume()
      let answer = try await app.task { 1 }.value
      require(answer == 1, "the parent goes on")
      try await scheduler.shutdown()
      exit(7)
    }
  }

  // R-CARD-07 R-CPU-02
  /// As a worker of the parent is inside a job of the strand, and more is queued, which is the parent's to
  /// run.
  @Test func anActorOnAStrandRunsInTheChild() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let (scheduler, actor) = try await visitedActor()
      let (begun, release, parents) = (Record<Bool>(), Flag(), Record<Int>())
      try actor.strand.submit {
        begun.add(true)
        release.spin()
      }
      try actor.strand.submit { parents.add(1) }
      _ = await begun.reaching(1)
      let status = try await statusOfChild {
        let visits = Record<Int>()
        visit(actor, visits)
        return visits.values == [1, 2, 3] ? Int32(parents.count) : 4
      }
      require(status == 0, "the actor's jobs run, in turn, and no other: \(status)")
      release.raise()
      _ = await parents.reaching(1)
      try await scheduler.shutdown()
      exit(7)
    }
  }

  // R-CARD-07 R-CPU-02
  /// The job that forks goes on in the child, and the actor's others come after it.
  @Test func anActorRunsAfterTheJobThatForked() async {
    await #expect(processExitsWith: .exitCode(7)) {
      let (scheduler, actor) = try await visitedActor()
      let fork = try forkFunction()
      let status = try await firstWithoutAlarm {
        let children = Record<Int32>()
        try actor.strand.submit {
          let child = fork()
          guard child == 0 else { return children.add(child) }
          endSoon()
          let visits = Record<Int>()
          visit(actor, visits) { _exit(visits.values == [0, 1, 2] ? 0 : 1) }
          visits.add(0)
          if !actor.strand.isIsolatingCurrentContext().unsafelyUnwrapped { _exit(2) }
        }
        return await exitStatus(of: children.reaching(1)[0])
      }
      require(status == 0, "the actor runs after the job: \(status)")
      try await scheduler.shutdown()
      exit(7)
    }
  }
}

private actor OnStrand {
  nonisolated let strand: Strand
  nonisolated var unownedExecutor: UnownedSerialExecutor { strand.asUnownedSerialExecutor() }
  init(_ strand: Strand) { self.strand = strand }

  /// What it starts on itself comes after it.
  func visit(_ visits: Record<Int>) {
    visits.add(1)
    Task { visitAgain(visits) }
    visits.add(2)
  }

  private func visitAgain(_ visits: Record<Int>) { visits.add(3) }
}

/// Calls the actor from a task that needs no thread but this one.
private func visit(_ actor: OnStrand, _ visits: Record<Int>, then after: @escaping @Sendable () -> Void = {})
{
  Task(executorPreference: CallersThread()) {
    await actor.visit(visits)
    after()
  }
}

/// An actor on a strand of a scheduler of one worker, and what the child will do with it done once in the
/// parent: what the runtime makes for a first call it makes under locks.
private func visitedActor() async throws -> (Scheduler, OnStrand) {
  let scheduler = try makeScheduler(workers: 1)
  let actor = OnStrand(try scheduler.makeApp(named: "app").makeStrand(named: "strand"))
  let early = Record<Int>()
  visit(actor, early)
  _ = await early.reaching(3)
  return (scheduler, actor)
}

/// What waitpid() says of the first of three children that does not wait until its alarm, or of the last. A
/// lock of the runtime's that another thread had as the child was made is no fault of the library's, and it
/// is not held in every attempt; what the library would wait for is.
private func firstWithoutAlarm(_ statusOfChild: () async throws -> Int32) async throws -> Int32 {
  var status: Int32 = 0
  for _ in 0..<3 {
    status = try await statusOfChild()
    if status & 0x7f != SIGALRM { break }
  }
  return status
}

/// What waitpid() says of a child that runs `body` and exits with what it returns. Swift hides fork(): a
/// child may do little. These ask, and leave.
private func statusOfChild(_ body: @escaping @Sendable () -> Int32) async throws -> Int32 {
  let fork = try forkFunction()
  return try await firstWithoutAlarm {
    let children = Record<Int32>()
    await onThread {
      let child = fork()
      if child == 0 {
        endSoon()
        _exit(body())
      }
      children.add(child)
    }
    return await exitStatus(of: children.values[0])
  }
}

private func forkFunction() throws -> @convention(c) () -> Int32 {
  unsafeBitCast(try #require(dlsym(nil, "fork")), to: (@convention(c) () -> Int32).self)
}

/// In the child: SIGALRM, if it waits for long.
private func endSoon() {
  // The thread may have been made with all signals blocked.
  var alarms = sigset_t()
  sigaddset(&alarms, SIGALRM)
  pthread_sigmask(SIG_UNBLOCK, &alarms, nil)
  alarm(20)
}

/// As waitpid() says it.
private func exitStatus(of child: Int32) async -> Int32 {
  let status = Record<Int32>()
  await onThread {
    var result: Int32 = -1
    while waitpid(child, &result, 0) < 0, errno == EINTR {}
    status.add(result)
  }
  return status.values[0]
}

private func shutDownScheduler() async throws -> (Scheduler, App, Strand) {
  let scheduler = try makeScheduler(workers: 1)
  let app = try scheduler.makeApp(named: "app")
  let strand = try app.makeStrand(named: "strand")
  try await scheduler.shutdown()
  return (scheduler, app, strand)
}

/// In the child: every call that could wait for threads of the parent's, one after the other. 0, or the
/// number of the first that was not refused as in a child.
private func refusals(_ scheduler: Scheduler, _ app: App, _ strand: Strand) -> Int32 {
  let wrong = Record<Int32>()
  func expectRefusal(_ number: Int32, _ call: () throws -> Void) {
    do {
      try call()
      wrong.add(number)
    } catch { if (error as? SchedulerError)?.code != .forked { wrong.add(number) } }
  }
  expectRefusal(1) { try app.submit {} }
  expectRefusal(2) { try strand.submit {} }
  expectRefusal(3) { _ = try scheduler.makeApp(named: "new") }
  app.resume()
  app.suspend()
  let ended = Flag()
  // Nobody runs the global pool here either: the caller's thread runs the task.
  let task = Task(executorPreference: CallersThread()) {
    do throws(SchedulerError) {
      try await scheduler.shutdown()
      wrong.add(4)
    } catch { if error.code != .forked { wrong.add(5) } }
    if await !scheduler.statistics().apps.isEmpty { wrong.add(6) }
    await app.untilSuspended()
    do { try await app.clock.sleep(for: .seconds(3600)) } catch { wrong.add(7) }
    ended.raise()
  }
  withExtendedLifetime(task) {}
  if !ended.isUp { wrong.add(8) }
  // The global pool has no threads here: it runs at once, on this one.
  let ran = Flag()
  app.task { ran.raise() }
  if !ran.isUp { wrong.add(9) }
  return wrong.values.first ?? 0
}
