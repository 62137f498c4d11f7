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
  /// - Parameter shrinking: in milliseconds; of bugs that only waiting finds, each smaller input takes a
  ///   second.
  private func finding(_ property: some Property, shrinking: UInt64 = 1000) async throws -> Finding? {
    try await onOwnThread {
      let fuzzer = try PropertyTarget(property).makeFuzzer()
      guard fuzzer.fuzz(seed: 1, milliseconds: 60_000, executions: 0).failed else { return nil }
      return fuzzer.shrunkFinding(milliseconds: shrinking)
    }
  }

  // R-CARD-09
  @Test func theIOSchedulerIsSeenToOvertakeToStarveAndToServeTheSuspended() async throws {
    let overtaken = try #require(try await finding(IOSchedulerProperty(Overtaking.self)))
    #expect(overtaken.message.contains("overtakes"), "\(overtaken.timeline)")
    let suspended = try #require(try await finding(IOSchedulerProperty(Unsuspended.self)))
    #expect(suspended.message.contains("is suspended"), "\(suspended.timeline)")
    let starved = try #require(try await finding(IOSchedulerProperty(Starving.self)))
    #expect(starved.message.contains("held back"), "\(starved.timeline)")
    let unlimited = try #require(try await finding(IOSchedulerProperty(Unlimited.self)))
    #expect(unlimited.message.contains("were allowed"), "\(unlimited.timeline)")
    let unraised = try #require(try await finding(IOSchedulerProperty(Unraised.self)))
    #expect(unraised.message.contains("said to be queued"), "\(unraised.timeline)")
  }

  // R-CARD-09 R-FTS-09
  @Test func theSchedulerIsSeenToServeTheSuspendedToTurnAStrandRoundAndToLoseAJob() async throws {
    var property = ExecutorProperty()
    property.forgets = .suspension
    let served = try #require(try await finding(property))
    #expect(served.message.contains("of the suspended app"), "\(served.timeline)")
    property.forgets = .turn
    let overtaken = try #require(try await finding(property))
    #expect(overtaken.message.contains("overtakes"), "\(overtaken.timeline)")
    // Time is what finds it.
    property.patience = 1
    property.forgets = .job
    let lost = try #require(try await finding(property))
    // Or the next of its strand has begun before that time was over.
    #expect(lost.message.contains("end") || lost.message.contains("overtakes"), "\(lost.timeline)")
  }

  // R-CARD-09 R-CPU-02
  @Test func theLockIsSeenToLetTwoInToRefuseAndToKeepWhoWaits() async throws {
    var property = LockProperty()
    property.forgets = .exclusion
    let together = try #require(try await finding(property))
    #expect(together.message.contains("lock"), "\(together.timeline)")
    property.forgets = .refusal
    let refused = try #require(try await finding(property))
    #expect(refused.message.contains("task"), "\(refused.timeline)")
    // Time is what finds it.
    property.patience = 1
    property.forgets = .release
    let kept = try #require(try await finding(property))
    #expect(kept.message.contains("do not end"), "\(kept.timeline)")
  }

  // R-CARD-09 R-FTS-07 R-CARD-04
  @Test func theBrokerIsSeenToServeTheSuspendedAndToForgetCalls() async throws {
    var property = RequestProperty()
    property.forgets = .suspension
    let served = try #require(try await finding(property))
    #expect(served.message.contains("suspended"), "\(served.timeline)")
    // Time is what finds the next ones.
    property.patience = 1
    property.forgets = .cancellation
    let uncancelled = try #require(try await finding(property))
    #expect(uncancelled.message.contains("cancelled calls do not end"), "\(uncancelled.timeline)")
    property.forgets = .answer
    let unanswered = try #require(try await finding(property))
    #expect(unanswered.message.contains("calls"), "\(unanswered.timeline)")
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
    let long = try #require(try await finding(inversions))
    #expect(long.message.contains("too long") || long.message.contains("isHelping"), "\(long.timeline)")
    inversions.look = { policy, waits, now in
      policy.look(waits.filter { $0.holder.slice.thread != 5 }, now: now)
    }
    #expect(try #require(try await finding(inversions)).message.contains("is not helped"))
    // As of one that moves short jobs as well.
    inversions = InversionProperty()
    inversions.move = { neighbour, holder, waiters in
      InversionPolicy.move(
        .init(party: neighbour.party, isDemoted: neighbour.isDemoted, age: .max), for: holder,
        waiters: waiters)
    }
    #expect(try #require(try await finding(inversions)).message.contains("is fresh"))

    var targets = TargetProperty()
    // As of one that takes each answer for a late one.
    targets.look = { policy, readings, running, width, now in
      let late = readings.map { reading in
        TargetPolicy.Reading(
          app: 1, p99: 1_000_000, requests: .init(answered: UInt64(now), late: UInt64(now)))
      }
      return policy.look(late, running: running, width: width, now: now)
    }
    #expect(try #require(try await finding(targets)).message.contains("nothing was late"))
  }

  // R-CARD-09 R-CPU-02
  @Test func thePoolIsSeenToKeepFreshWorkWaiting() async throws {
    var property = PoolProperty()
    // As of a monitor that replaces no worker that blocks.
    property.ignores = { if case .replaceBlocked = $0 { true } else { false } }
    let waits = try #require(try await finding(property, shrinking: 5000))
    #expect(waits.message.contains("are promised"), "\(waits.timeline)")
    #expect(waits.timeline.split(separator: "\n").count <= 12, "\(waits.timeline)")
  }

  // R-CARD-09
  @Test func theLifecycleIsSeenToRunTheSuspendedAndToKeepTasks() async throws {
    var property = LifecycleProperty()
    property.shows = { $0.action == .lifecycle(.stopExecution) ? nil : $0 }
    let running = try #require(try await finding(property))
    #expect(running.message.contains("suspended and may still start"), "\(running.timeline)")
    property.shows = { entry in
      if case .taskEnded = entry.action { nil } else { entry }
    }
    let open = try #require(try await finding(property))
    #expect(open.message.contains("open"), "\(open.timeline)")
  }

  // R-CARD-09
  @Test func theStoreIsSeenNotToSynchronise() async throws {
    var property = StoreProperty()
    property.synchronises = false
    let lost = try #require(try await finding(property, shrinking: 10_000))
    #expect(lost.message.contains("crash"), "\(lost.timeline)")
    #expect(lost.timeline.split(separator: "\n").count <= 4, "\(lost.timeline)")
  }

  // R-CARD-09
  @Test func parsersAreSeenToTrapAndToMisread() async throws {
    var request = HostRequestProperty()
    request.read = { data in
      var request = HostRequest.read(data)
      if request?.alone == true { request?.foreground = true }
      return request
    }
    #expect(try #require(try await finding(request)).message.contains("is read as"))
    var line = ClientLineProperty()
    let read = line.read
    line.read = { data in
      var line = read(data)
      // As of a reader that cuts where the room ends, within a character.
      if let last = line?.error.509, last != 0 { line?.error.510 = -61 }
      return line
    }
    #expect(try #require(try await finding(line)).message.contains("half a character"))
    var manifest = ManifestProperty()
    manifest.read = { data in
      let result = try ManifestReader.read(data)
      guard result.unknownModes.count < 2 else { return result }
      var changed = result.manifest
      changed.backgroundModes.remove(.voip)
      return ManifestReader.Result(
        changed, unknownKeys: result.unknownKeys, unknownModes: result.unknownModes)
    }
    #expect(try #require(try await finding(manifest)).message.contains("is read as"))
    manifest.read = { data in
      _ = [0, 1, 2][data.count % 5]
      return try ManifestReader.read(data)
    }
    #expect(try #require(try await finding(manifest)).message.contains("traps"))

    var trace = TraceProperty()
    // The way back, as of a reader that takes south for north.
    trace.read = {
      try LocationTrace.read(Data(String(decoding: $0, as: UTF8.self).replacing(",S,", with: ",N,").utf8))
    }
    #expect(try await finding(trace) != nil)

    var regions = GeoJSONProperty()
    regions.read = { try GeoJSON.regions($0).filter { !$0.name.contains("\"") } }
    #expect(try #require(try await finding(regions)).message.contains("come back"))

    var gpsd = GPSDProperty()
    // As of a client that takes each piece for a line.
    gpsd.receive = { $0.handle(.received($1 + [10]), at: .seconds(1)) }
    #expect(try #require(try await finding(gpsd)).message.contains("in pieces"))
    gpsd.receive = { session, bytes in
      session.handle(.received(bytes), at: .seconds(1)).filter { $0 != .close }
    }
    #expect(try #require(try await finding(gpsd)).message.contains("not closed"))

    var recording = RecordingProperty()
    recording.read = { path in
      var trace = try TraceReader.read(path)
      trace.inputs.reverse()
      return trace
    }
    #expect(try #require(try await finding(recording)).message.contains("comes late"))
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
