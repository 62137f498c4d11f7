import Foundation
import OpportuneApps
import OpportuneModels
import TestSupport
import Testing

/// Random events against the model, and every event in every state.
@Suite(.bounded) struct RandomTests {
  private static let modes: [Set<Manifest.Mode>] = [
    [], [.audio], [.voip], [.fetch], [.location, .audio], [.audio, .voip, .fetch],
  ]

  private static func event(_ generator: inout SplitMix64, _ open: [TaskID]) -> AppEvent {
    switch Int.random(in: 0..<34, using: &generator) {
    case 0...3: .launch
    case 4: .launchInBackground(.system)
    case 5...7: .bringForward
    case 8...9: .leave
    case 10: .interrupt
    case 11: .endInterruption
    case 12: .terminate
    case 13: .hibernate
    case 14: .does(.beginTask(TaskKind.allCases.randomElement(using: &generator) ?? .other))
    case 15: .does(.beginTask(.upload))
    case 16...17: .does(.endTask(open.randomElement(using: &generator) ?? .invalid))
    case 18: .does(.audioBegan(.play))
    case 19: .does(.audioPaused)
    case 20: .does(.audioResumed)
    case 21: .does(.audioEnded)
    case 22: .message(Message("m"))
    case 23: .data(bytes: 1)
    case 24: .does(.heartbeat(.seconds(600)))
    case 25: .changed(kind: "k", to: "v")
    case 26: .does(.lock(.addressBook))
    case 27: .does(.unlock(.addressBook))
    case 28: .does(.request(.camera))
    case 29: .memoryWarning
    case 30: .trackingBegan
    case 31: .trackingEnded
    case 32: .exited
    default: .locationEvent
    }
  }

  private static func policy(_ number: Int) -> AppsPolicy {
    var policy = AppsPolicy()
    if number % 3 == 1 { policy.maximumForeground = 2 }
    if number % 4 == 1 { policy.audio.pause = .hibernate }
    if number % 4 == 2 { policy.restrictions.heldAtSuspension = .terminate }
    if number % 5 == 1 { policy.tasks.unfinished = .suspend }
    if number % 5 == 2 { policy.tasks.idleLimit = .seconds(30) }
    if number % 6 == 1 { policy.eventsLaunchApps = false }
    if number % 7 == 1 { policy.suspendsOnReturn = true }
    if number % 8 == 1 { policy.messages.delivery = .batch(.seconds(300)) }
    if number % 9 == 1 { policy.power.fullOnMains = true }
    return policy
  }

  /// Runs a host with random events, and gives it with what the model found.
  static func run(seed: UInt64, events: Int, keepsLog: Bool = true, apps count: Int = 4) throws -> (
    VirtualHost, [String]
  ) {
    var generator = SplitMix64(seed: seed)
    let policy = policy(Int(seed % 840))
    var host = try VirtualHost(policy: policy, keepsLog: true, hashesLog: !keepsLog)
    var behaviour = Behaviour()
    behaviour.callback = .milliseconds(Int64(Int.random(in: 0...1500, using: &generator)))
    behaviour.slice = .milliseconds(Int64(Int.random(in: 0...1300, using: &generator)))
    behaviour.expiration = Bool.random(using: &generator) ? .seconds(1) : nil
    behaviour.reaping = .milliseconds(Int64(Int.random(in: 0...2000, using: &generator)))
    host.behaviour = behaviour
    let apps = (0..<count).map {
      host.register(manifest("app\($0)", modes[($0 + Int(seed % 6)) % modes.count], exits: $0 == 3))
    }
    var models = [LifecycleModel](repeating: LifecycleModel(), count: count)
    var read = 0
    for _ in 0..<events {
      let app = apps[Int.random(in: 0..<count, using: &generator)]
      let open = host.system.view(of: app)?.openTasks ?? []
      if Int.random(in: 0..<40, using: &generator) == 0 {
        try host.post(.power(Bool.random(using: &generator) ? .mains : .battery))
      } else {
        try? host.post(event(&generator, open), app)
      }
      if Bool.random(using: &generator) {
        try host.run(for: .milliseconds(Int64(Int.random(in: 0...9000, using: &generator))))
      }
      for entry in host.log[read...] { models[entry.app.number].sees(entry.action, at: entry.moment, policy) }
      read = host.log.count
      var problems = models.enumerated().flatMap { index, model in model.problems.map { "app\(index): \($0)" }
      }
      // R-LIFE-04, R-LIFE-05
      if models.count(where: \.isInFront) > policy.maximumForeground { problems.append("too many in front") }
      // Who is in background is so for a reason that can be read.
      if let view = host.system.view(of: app), view.state == .background, view.heldBy.isEmpty {
        problems.append("\(app) is in background for no reason")
      }
      if !problems.isEmpty { return (host, problems.map { "seed \(seed), event \(host.events): \($0)" }) }
    }
    return (host, [])
  }

  // R-LIFE-01, R-LIFE-06, R-TASK-03, R-SAMP-10, R-CARD-05
  @Test(arguments: 0..<200 as Range<UInt64>) func aModelOfTheRequirementsFindsNothing(_ seed: UInt64) throws {
    // OPPORTUNE_RANDOM_EVENTS=5000 makes a million of them, with all seeds.
    let events = ProcessInfo.processInfo.environment["OPPORTUNE_RANDOM_EVENTS"].flatMap { Int($0) } ?? 500
    let (host, problems) = try Self.run(seed: seed, events: events)
    let tail = host.log.suffix(12).map(\.description).joined(separator: "\n")
    #expect(problems.isEmpty, "\(problems)\n\(tail)")
  }

  // R-CARD-05
  @Test func theSameSeedGivesTheSameLog() throws {
    let hashes = try (0..<2).map { _ in try Self.run(seed: 7, events: 2000, keepsLog: false).0.hash }
    #expect(hashes[0] == hashes[1])
    #expect(try Self.run(seed: 8, events: 2000, keepsLog: false).0.hash != hashes[0])
  }

  // R-LIFE-01
  @Test func refusedEventsChangeNothing() throws {
    var generator = SplitMix64(seed: 11)
    var host = try VirtualHost()
    let app = host.register(manifest("app", [.audio]))
    var refused = 0
    for _ in 0..<5000 {
      let open = host.system.view(of: app)?.openTasks ?? []
      let before = host
      do { try host.post(Self.event(&generator, open), app) } catch {
        refused += 1
        #expect(host.log == before.log)
        #expect(host.system.state(of: app) == before.system.state(of: app))
        #expect(host.system.view(of: app)?.openTasks == open)
      }
      try host.run(for: .milliseconds(Int64(Int.random(in: 0...3000, using: &generator))))
    }
    #expect(refused > 100)
  }

  // R-LIFE-01
  @Test func everyEventInEveryStateToDepthFour() throws {
    let events: [AppEvent] = [
      .launch, .launchInBackground(.system), .bringForward, .leave, .interrupt, .endInterruption, .terminate,
      .hibernate,
      .memoryWarning, .locationEvent, .exited, .reaped, .stopped, .returned(.didEnterBackground),
      .message(Message("m")),
      .does(.beginTask(.other)), .does(.audioBegan(.play)),
    ]
    let policy = AppsPolicy()
    var host = try VirtualHost(policy: policy, keepsLog: true, hashesLog: false)
    _ = host.register(manifest("app", [.audio]))
    var visited = 0
    var problems: [String] = []
    func descend(_ host: VirtualHost, _ model: LifecycleModel, _ depth: Int) {
      for event in events {
        var next = host
        var model = model
        let start = next.log.count
        try? next.post(event, AppID.first)
        try? next.run(for: .seconds(depth % 2 == 0 ? 6 : 0))
        for entry in next.log[start...] { model.sees(entry.action, at: entry.moment, policy) }
        visited += 1
        problems += model.problems.map { "\($0) after \(event)" }
        if depth < 4, model.problems.isEmpty { descend(next, model, depth + 1) }
      }
    }
    descend(host, LifecycleModel(), 1)
    #expect(
      visited
        == (1...4).reduce(0) { sum, depth in
          sum + (0..<depth).reduce(1) { product, _ in product * events.count }
        })
    #expect(problems.isEmpty, "\(problems.prefix(5))")
  }
}

extension AppID {
  fileprivate static var first: AppID { AppID(0) }
}
