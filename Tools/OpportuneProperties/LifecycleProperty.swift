import OpportuneApps
import OpportuneBase
import OpportuneFuzz
import OpportuneModels

/// Random events of four apps in virtual time, against ``LifecycleModel``.
struct LifecycleProperty: DrawnProperty {
  let name = "lifecycle"
  let summary =
    "Nothing starts or reaches an app that is suspended, hibernated or gone; callbacks in their order; each task ends "
    + "once and in time; no more apps in front than the policy says; a refused event changes nothing."
  let head = 8
  let grain = 6
  /// What the judge is shown of what the system did; for tests of the judge.
  var shows: @Sendable (AppHost.Event) -> AppHost.Event? = { $0 }

  private static let modes: [Set<Manifest.Mode>] = [
    [], [.audio], [.voip], [.fetch], [.location, .audio], [.audio, .voip, .fetch],
  ]

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    let steps = Int.random(in: 1...120, using: &generator)
    return generator.bytes(head + grain * steps)
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var (bytes, steps) = parts(of: input)
    let policy = Self.policy(&bytes)
    var host: VirtualHost
    do { host = try VirtualHost(policy: policy, keepsLog: true, hashesLog: false) } catch {
      throw Violation("a policy is refused: \(error)")
    }
    host.behaviour = Self.behaviour(&bytes)
    let shift = bytes.below(Self.modes.count)
    let apps = (0..<4).map { number in
      host.register(
        Manifest(
          identifier: "app\(number)", backgroundModes: Self.modes[(number + shift) % Self.modes.count],
          exitsOnSuspend: number == 3))
    }
    var judge = Judge(policy, shows, count: apps.count)
    for var bytes in steps {
      try step(&host, apps, &bytes, &log)
      try judge.sees(host, &log)
    }
    log.note("an hour passes")
    try pass(.seconds(3600), &host)
    try judge.sees(host, &log)
  }

  private func step(
    _ host: inout VirtualHost, _ apps: [AppID], _ bytes: inout ByteSource, _ log: inout StepLog
  ) throws(Violation) {
    let app = apps[bytes.below(apps.count)]
    let kind = bytes.below(54)
    let argument = bytes.byte()
    if kind >= 52 {
      let event: SystemEvent = kind == 52 ? .power(argument & 1 == 0 ? .mains : .battery) : .displayActivated
      log.note("\(event)")
      do { try host.post(event) } catch { throw Violation("\(event) is refused: \(error)") }
    } else {
      let (logged, state) = (host.log.count, host.system.state(of: app))
      let open = host.system.view(of: app)?.openTasks ?? []
      let event = Self.event(kind, argument, open)
      log.note("\(app): \(event)")
      do { try host.post(event, app) } catch {
        log.add(", refused: \(error)")
        guard host.log.count == logged, host.system.state(of: app) == state,
          host.system.view(of: app)?.openTasks == open
        else { throw Violation("\(event) was refused, and changed something") }
      }
    }
    let milliseconds = bytes.flag() ? bytes.below(9001) : 0
    if milliseconds > 0 {
      log.note("\(milliseconds) ms pass")
      try pass(.milliseconds(Int64(milliseconds)), &host)
    }
  }

  private func pass(_ span: Duration, _ host: inout VirtualHost) throws(Violation) {
    do { try host.run(for: span) } catch { throw Violation("time does not pass: \(error)") }
  }

  private static func policy(_ bytes: inout ByteSource) -> AppsPolicy {
    var policy = AppsPolicy()
    let (first, second) = (bytes.byte(), bytes.byte())
    if first & 1 != 0 { policy.maximumForeground = 2 }
    if first & 2 != 0 { policy.audio.pause = .hibernate }
    if first & 4 != 0 { policy.restrictions.heldAtSuspension = .terminate }
    if first & 8 != 0 { policy.tasks.unfinished = .suspend }
    if first & 16 != 0 { policy.tasks.idleLimit = .seconds(30) }
    if first & 32 != 0 { policy.eventsLaunchApps = false }
    if first & 64 != 0 { policy.suspendsOnReturn = true }
    if first & 128 != 0 { policy.messages.delivery = .batch(.seconds(300)) }
    if second & 1 != 0 { policy.callbackOverrun = .terminate }
    if second & 2 != 0 { policy.completionsReanimate = true }
    if second & 4 != 0 { policy.tasks.finished = .terminate }
    if second & 8 != 0 { policy.tasks.endsOnDisplay = true }
    if second & 16 != 0 { policy.power.fullOnMains = true }
    if second & 32 != 0 { policy.tasks.eligible = [.upload] }
    return policy
  }

  private static func behaviour(_ bytes: inout ByteSource) -> Behaviour {
    var behaviour = Behaviour()
    behaviour.callback = .milliseconds(Int64(bytes.byte()) * 6)
    behaviour.slice = .milliseconds(Int64(bytes.byte()) * 5)
    behaviour.expiration = bytes.flag() ? .seconds(1) : nil
    behaviour.reaping = .milliseconds(Int64(bytes.byte()) * 8)
    return behaviour
  }

  private static let plain: [AppEvent] = [
    .launch, .launch, .launch, .launchInBackground(.system), .bringForward, .bringForward, .leave, .leave,
    .leave,
    .interrupt, .endInterruption, .terminate, .hibernate, .does(.audioBegan(.play)), .does(.audioPaused),
    .does(.audioResumed),
    .does(.audioEnded),
    .message(Message("m")), .data(bytes: 1), .does(.heartbeat(.seconds(600))), .changed(kind: "k", to: "v"),
    .does(.lock(.addressBook)), .does(.unlock(.addressBook)), .does(.request(.camera)),
    .does(.release(.camera)), .memoryWarning,
    .trackingBegan,
    .trackingEnded, .exited, .locationEvent, .completion, .does(.handled), .does(.heartbeatSent),
    .does(.fetched(.newData)),
    .stopped,
    .reaped, .returned(.didEnterBackground), .worked(.milliseconds(50)), .does(.call("c")),
    .does(.cancelLocalNotifications),
    .does(.workBegan(.upload)), .does(.workEnded(.upload)), .footprint(.max), .worked(.seconds(Int64.max)),
    .does(.schedule(LocalNotification(fireDate: .instant(60), repeats: .daily, body: "b"))),
    .does(.schedule(LocalNotification(fireDate: .instant(.nan), repeats: .weekly, body: "b"))),
  ]

  private static func event(_ kind: Int, _ argument: UInt8, _ open: [TaskID]) -> AppEvent {
    switch kind {
    case 0...2: .does(.beginTask(TaskKind.allCases[Int(argument) % TaskKind.allCases.count]))
    case 3...5: .does(.endTask(open.isEmpty ? .invalid : open[Int(argument) % open.count]))
    default: plain[(kind - 6) % plain.count]
    }
  }

  /// Reads the log on from where it read last.
  private struct Judge {
    let policy: AppsPolicy
    let shows: @Sendable (AppHost.Event) -> AppHost.Event?
    var models: [LifecycleModel]
    var read = 0

    init(_ policy: AppsPolicy, _ shows: @escaping @Sendable (AppHost.Event) -> AppHost.Event?, count: Int) {
      self.policy = policy
      self.shows = shows
      models = [LifecycleModel](repeating: LifecycleModel(), count: count)
    }

    mutating func sees(_ host: VirtualHost, _ log: inout StepLog) throws(Violation) {
      for entry in host.log[read...].compactMap(shows) {
        log.add("\n         \(entry)")
        models[entry.app.number].sees(entry.action, at: entry.moment, policy)
      }
      read = host.log.count
      for (number, model) in models.enumerated() {
        if let problem = model.problems.first { throw Violation("app\(number): \(problem)") }
      }
      // R-LIFE-04, R-LIFE-05
      let inFront = models.count(where: \.isInFront)
      if inFront > policy.maximumForeground { throw Violation("\(inFront) apps are in front") }
    }
  }
}
