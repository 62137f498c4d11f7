import Foundation
import OpportuneApps
import OpportuneFuzz
import OpportuneHost
import OpportuneIO
import OpportuneLocation
import OpportuneModels
import OpportuneReplay
import OpportuneScheduler
import OpportuneTraces
import TestSupport
import Testing

@testable import OpportuneProperties

/// Each target with a planted bug, which it must find.
@Suite(.bounded) struct PlantedBugTests {
  /// The bug is found, and told by one of the words where there are some.
  ///
  /// - Parameters:
  ///   - shrinking: in milliseconds; of bugs that only waiting finds, each smaller input takes a second.
  ///   - steps: the most that its timeline has.
  private func expect(
    _ property: some DrawnProperty, tells words: String..., shrinking: UInt64 = 1000, steps: Int = .max,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    let found = try await onOwnThread { () -> Finding? in
      let fuzzer = try PropertyTarget(property).makeFuzzer()
      guard fuzzer.fuzz(seed: 1, milliseconds: 60_000, executions: 0).failed else { return nil }
      return fuzzer.shrunkFinding(milliseconds: shrinking)
    }
    let finding = try #require(found, sourceLocation: sourceLocation)
    #expect(
      words.isEmpty || words.contains(where: finding.message.contains),
      "\(finding.message)\n\(finding.timeline)",
      sourceLocation: sourceLocation)
    #expect(
      finding.timeline.split(separator: "\n").count <= steps, "\(finding.timeline)",
      sourceLocation: sourceLocation)
  }

  // R-CARD-09
  @Test func theIOSchedulerIsSeenToOvertakeToStarveAndToServeTheSuspended() async throws {
    try await expect(IOSchedulerProperty(Overtaking.self), tells: "overtakes")
    try await expect(IOSchedulerProperty(Unsuspended.self), tells: "is suspended")
    try await expect(IOSchedulerProperty(Starving.self), tells: "held back")
    try await expect(IOSchedulerProperty(Unlimited.self), tells: "were allowed")
    try await expect(IOSchedulerProperty(Unraised.self), tells: "said to be queued")
  }

  // R-CARD-09 R-FTS-09
  @Test func theSchedulerIsSeenToServeTheSuspendedToTurnAStrandRoundAndToLoseAJob() async throws {
    var property = ExecutorProperty()
    property.forgets = .suspension
    try await expect(property, tells: "of the suspended app")
    property.forgets = .turn
    try await expect(property, tells: "overtakes")
    // Time is what finds it.
    property.patience = 1
    property.forgets = .job
    // Or the next of its strand has begun before that time was over.
    try await expect(property, tells: "end", "overtakes")
  }

  // R-CARD-09 R-CPU-02
  @Test func theLockIsSeenToLetTwoInToRefuseAndToKeepWhoWaits() async throws {
    var property = LockProperty()
    property.forgets = .exclusion
    try await expect(property, tells: "lock")
    property.forgets = .refusal
    try await expect(property, tells: "task")
    // Time is what finds it.
    property.patience = 1
    property.forgets = .release
    try await expect(property, tells: "do not end")
  }

  // R-CARD-09 R-FTS-07 R-CARD-04
  @Test func theBrokerIsSeenToServeTheSuspendedAndToForgetCalls() async throws {
    var property = RequestProperty()
    property.forgets = .suspension
    try await expect(property, tells: "suspended")
    // Time is what finds the next ones.
    property.patience = 1
    property.forgets = .cancellation
    try await expect(property, tells: "cancelled calls do not end")
    property.forgets = .answer
    try await expect(property, tells: "calls")
  }

  // R-CARD-09 R-CPU-01
  @Test func thePoliciesAreSeenToHelpForTooLongAndToGiveNothingBack() async throws {
    var inversions = InversionProperty()
    // As of one that forgets the limit while somebody waits.
    inversions.look = { policy, waits, now in
      policy.look(waits, now: now).filter { action in
        if case .leave(let slice) = action { !waits.contains { $0.holder.slice == slice } } else { true }
      }
    }
    try await expect(inversions, tells: "too long", "isHelping")
    inversions.look = { policy, waits, now in
      policy.look(waits.filter { $0.holder.slice.thread != 5 }, now: now)
    }
    try await expect(inversions, tells: "is not helped")
    // As of one that moves short jobs as well.
    inversions = InversionProperty()
    inversions.move = { neighbour, holder, waiters in
      InversionPolicy.move(
        .init(party: neighbour.party, isDemoted: neighbour.isDemoted, age: .max), for: holder,
        waiters: waiters)
    }
    try await expect(inversions, tells: "is fresh")

    var watch = LockWatchProperty()
    // As of one that asks whom it finds first.
    watch.choose = { jobs in jobs.prefix(LockWatch.most).map(\.job) }
    try await expect(watch, tells: "was passed over")
    watch.choose = { jobs in jobs.count > 10 ? jobs.map(\.job) : LockWatch.choose(jobs) }
    try await expect(watch, tells: "are asked, of")
    watch = LockWatchProperty()
    // As of one that remembers nothing of a job.
    watch.look = { _, _, start, cpuBefore, cpu, now in
      now &- start > (cpu &- cpuBefore) &+ LockWatch.patience
    }
    try await expect(watch, tells: "is to be asked", "is asked again")

    var targets = TargetProperty()
    // As of one that takes each answer for a late one.
    targets.look = { policy, readings, running, width, now in
      let late = readings.map { reading in
        TargetPolicy.Reading(
          app: 1, p99: 1_000_000, requests: .init(answered: UInt64(now), late: UInt64(now)))
      }
      return policy.look(late, running: running, width: width, now: now)
    }
    try await expect(targets, tells: "nothing was late")
  }

  // R-CARD-09 R-CPU-02
  @Test func thePoolIsSeenToKeepFreshWorkWaiting() async throws {
    var property = PoolProperty()
    // As of a monitor that replaces no worker that blocks.
    property.bugs.ignores = { if case .replaceBlocked = $0 { true } else { false } }
    try await expect(property, tells: "are promised", "not called", shrinking: 5000, steps: 12)
    property.bugs.ignores = { if case .lower = $0 { true } else { false } }
    try await expect(property, tells: "is not lowered")
    property.bugs.ignores = { if case .endTrial = $0 { true } else { false } }
    try await expect(property, tells: "on trial")
    property.bugs.ignores = {
      switch $0 {
      case .callSpare, .setStalled: true
      default: false
      }
    }
    try await expect(property, tells: "spare worker is not called")
    // As of one that leaves running jobs where they were.
    property.bugs.ignores = { if case .setBand = $0 { true } else { false } }
    try await expect(property, tells: "and to be of the", "it is of this pool")
  }

  // R-CARD-09
  @Test func theLifecycleIsSeenToRunTheSuspendedAndToKeepTasks() async throws {
    var property = LifecycleProperty()
    property.shows = { $0.action == .lifecycle(.stopExecution) ? nil : $0 }
    try await expect(property, tells: "suspended and may still start")
    property.shows = { entry in
      if case .taskEnded = entry.action { nil } else { entry }
    }
    try await expect(property, tells: "open")
  }

  // R-CARD-09
  @Test func theHostIsSeenToRunTheStoppedToForgetTasksAndToLetAGracePass() async throws {
    var property = ProgramsProperty()
    property.shows = { app in
      var app = app
      app.isFrozen = false
      return app
    }
    try await expect(property, tells: "not stopped")
    property.shows = { app in
      var app = app
      app.tasks = app.tasks.filter { $0 != 3 }
      return app
    }
    try await expect(property, tells: "has the tasks")
    property.shows = { app in
      var app = app
      app.killAt = app.killAt.map { $0 + .seconds(-60) }
      return app
    }
    try await expect(property, tells: "grace for the end")
  }

  // R-CARD-09
  @Test func theStoreIsSeenNotToSynchronise() async throws {
    var property = StoreProperty()
    property.synchronises = false
    try await expect(property, tells: "crash", shrinking: 10_000, steps: 4)
  }

  // R-CARD-09
  @Test func parsersAreSeenToTrapAndToMisread() async throws {
    var request = HostRequestProperty()
    request.read = { data in
      var request = HostRequest.read(data)
      if request?.alone == true { request?.foreground = true }
      return request
    }
    try await expect(request, tells: "is read as")
    var line = ClientLineProperty()
    let read = line.read
    line.read = { data in
      var line = read(data)
      // As of a reader that cuts where the room ends, within a character.
      if let last = line?.error.509, last != 0 { line?.error.510 = -61 }
      return line
    }
    try await expect(line, tells: "half a character")
    var manifest = ManifestProperty()
    manifest.read = { data in
      let result = try ManifestReader.read(data)
      guard result.unknownModes.count < 2 else { return result }
      var changed = result.manifest
      changed.backgroundModes.remove(.voip)
      return ManifestReader.Result(
        changed, unknownKeys: result.unknownKeys, unknownModes: result.unknownModes)
    }
    try await expect(manifest, tells: "is read as")
    manifest.read = { data in
      _ = [0, 1, 2][data.count % 5]
      return try ManifestReader.read(data)
    }
    try await expect(manifest, tells: "traps")

    var trace = TraceProperty()
    // The way back, as of a reader that takes south for north.
    trace.read = {
      try LocationTrace.read(Data(String(decoding: $0, as: UTF8.self).replacing(",S,", with: ",N,").utf8))
    }
    try await expect(trace)

    var regions = GeoJSONProperty()
    regions.read = { try GeoJSON.regions($0).filter { !$0.name.contains("\"") } }
    try await expect(regions, tells: "come back")

    var gpsd = GPSDProperty()
    // As of a client that takes each piece for a line.
    gpsd.receive = { $0.handle(.received($1 + [10]), at: .seconds(1)) }
    try await expect(gpsd, tells: "in pieces")
    gpsd.receive = { session, bytes in
      session.handle(.received(bytes), at: .seconds(1)).filter { $0 != .close }
    }
    try await expect(gpsd, tells: "not closed")

    var recording = RecordingProperty()
    recording.read = { path in
      var trace = try TraceReader.read(path)
      trace.inputs.reverse()
      return trace
    }
    try await expect(recording, tells: "comes late")
  }
}

// MARK: Broken schedulers

/// The second is given before the first.
private struct Overtaking: BrokenScheduler {
  var scheduler: IOScheduler<Int>
  init(_ policy: DevicePolicy, now: UInt64) { scheduler = IOScheduler(policy, now: now) }
  mutating func next(now: UInt64) -> Grant? {
    guard let first = scheduler.next(now: now) else { return nil }
    guard let second = scheduler.next(now: now), second.ticket.app == first.ticket.app else { return first }
    return second
  }
}

private struct Unsuspended: BrokenScheduler {
  var scheduler: IOScheduler<Int>
  init(_ policy: DevicePolicy, now: UInt64) { scheduler = IOScheduler(policy, now: now) }
  mutating func setState(_ state: IOState, of app: Int, takesDonations: Bool) {
    if state != .suspended { scheduler.setState(state, of: app, takesDonations: takesDonations) }
  }
}

private struct Starving: BrokenScheduler {
  var scheduler: IOScheduler<Int>
  var asked = 0
  init(_ policy: DevicePolicy, now: UInt64) { scheduler = IOScheduler(policy, now: now) }
  mutating func next(now: UInt64) -> Grant? {
    asked += 1
    return asked % 3 == 0 ? nil : scheduler.next(now: now)
  }
}

/// Who is waited for stays in its queue.
private struct Unraised: BrokenScheduler {
  var scheduler: IOScheduler<Int>
  init(_ policy: DevicePolicy, now: UInt64) { scheduler = IOScheduler(policy, now: now) }
  mutating func donate(to ticket: Ticket) -> Bool { scheduler.queued.reduce(0, +) > 0 }
}

private struct Unlimited: BrokenScheduler {
  var scheduler: IOScheduler<Int>
  init(_ policy: DevicePolicy, now: UInt64) {
    var policy = policy
    policy.bytes = nil
    policy.operations = nil
    scheduler = IOScheduler(policy, now: now)
  }
}
