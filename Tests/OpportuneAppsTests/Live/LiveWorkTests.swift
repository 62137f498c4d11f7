import Glibc
import Opportune
import TestSupport
import Testing

@Suite(.bounded) struct LiveWorkTests {
  private func host(_ change: (inout AppsPolicy) -> Void) throws -> AppHost {
    try patientHost { policy in
      policy.tasks.wallClock = nil
      change(&policy)
    }
  }

  // R-TASK-03, R-TASK-05
  @Test(.timeLimit(.minutes(1))) func theCPULimitEndsATaskThatWorksAndNoOther() async throws {
    let host = try host { $0.tasks.cpuTime = .milliseconds(30) }
    let (expired, mayEnd) = (Counter(), Counter())
    let quiet = try await launchAndWait(host, Manifest(identifier: "quiet")) { _ in Silent() }
    let idleTask = try await quiet.beginTask { Issue.record("a task that used no CPU time expired") }
    let busy = try await launchAndWait(host, Manifest(identifier: "busy")) { _ in Silent() }
    let task = try await busy.beginTask { expired.add() }
    try await host.leave(busy.id)
    // One slice that does not end: what it has used must count while it runs.
    try busy.submit { mayEnd.spin(to: 1) }
    try await until { expired.value > 0 }
    #expect(await busy.app.cpuTime() >= .milliseconds(30))
    #expect(await host.view(of: busy.id)?.openTasks == [task])
    mayEnd.add()
    try await busy.endTask(task)
    await wait(host, busy, for: .suspended)
    #expect(await host.state(of: quiet.id) == .background)
    try await quiet.endTask(idleTask)
    await wait(host, quiet, for: .suspended)
  }

  // R-TASK-17
  @Test(.timeLimit(.minutes(1))) func aTaskThatDoesNothingIsLostAndOneThatWorksIsNot() async throws {
    // Long enough for the jobs that work to get a CPU of a loaded machine in it, in no lower class than
    // others'.
    let host = try host {
      $0.tasks.idleLimit = .seconds(2)
      $0.restrictions.resources.remove(.cpu)
    }
    let (expired, isWorking, mayEnd) = (Counter(), Counter(), Counter())
    let busy = try await launchAndWait(host, Manifest(identifier: "busy")) { _ in Silent() }
    let task = try await busy.beginTask { if mayEnd.value == 0 { Issue.record("a task that works expired") } }
    try work(busy, isWorking, until: mayEnd)
    try await until { isWorking.value > 0 }
    let idle = try await launchAndWait(host, Manifest(identifier: "idle")) { _ in Silent() }
    let idleTask = try await idle.beginTask { expired.add() }
    try await host.leave(idle.id)
    try await until { expired.value > 0 }
    #expect(await host.view(of: busy.id)?.openTasks == [task])
    mayEnd.add()
    try await idle.endTask(idleTask)
    try? await busy.endTask(task)
    await wait(host, busy, for: .suspended)
  }

  /// A chain of jobs that each use a fraction of a quantum, so that nothing lowers them.
  private func work(_ app: HostedApp, _ turns: Counter, until mayEnd: Counter) throws {
    try app.submit {
      turns.add()
      burn(milliseconds: 1)
      if mayEnd.value == 0 { try? work(app, turns, until: mayEnd) }
    }
  }

  /// Uses so much CPU time of the calling thread.
  private func burn(milliseconds: Int) {
    let end = SystemClock.threadCPU() + UInt64(milliseconds) * 1_000_000
    while SystemClock.threadCPU() < end {}
  }

  // R-RULE-01
  @Test(.timeLimit(.minutes(1)), arguments: [100, 1100])
  func muchWorkInBackgroundIsSeenWhereNothingLimitsIt(milliseconds: Int) async throws {
    let host = try host { $0.restrictions.resources.remove(.cpu) }
    let app = try await launchAndWait(host, Manifest(identifier: "busy")) { _ in Silent() }
    let task = try await app.beginTask()
    let start = ContinuousClock.now
    try await host.leave(app.id)
    // No more than that, whenever it is looked at.
    let work = try app.task { burn(milliseconds: milliseconds) }
    await work.value
    let events = await host.observe()
    try await app.endTask(task)
    if milliseconds > 1000 {
      // Beside what else it ran, the rule allows that much.
      guard ContinuousClock.now - start < .seconds(9) else {
        return print("skipped: this machine is too loaded")
      }
      for await event in events { if event.action == .diagnose(.rule(.minimumInBackground)) { break } }
    }
    await wait(host, app, for: .suspended)
    #expect(await host.view(of: app.id)?.brokenRules[.minimumInBackground] == (milliseconds > 1000 ? 1 : nil))
    try await host.terminate(app.id)
  }

  // R-TASK-05
  @Test func looksAreSoFarApartThatTheLimitIsNotPassedUnseen() throws {
    var rig = try Rig { $0.tasks.cpuTime = .milliseconds(100) }
    func interval() -> Duration? { rig.host.system.workInterval(of: rig.app, cores: 4) }
    try rig.does(.launch)
    #expect(interval() == nil)  // in front it does not count
    try rig.does(.beginTask(.upload))
    try rig.does(.leave)
    #expect(interval() == .milliseconds(25))
    try rig.does(.worked(.milliseconds(60)))
    #expect(interval() == .milliseconds(10))
    try rig.does(.endTask(rig.tasks()[0]))
    #expect(interval() == nil)
  }
}
