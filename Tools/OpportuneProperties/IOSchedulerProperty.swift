import OpportuneBase
import OpportuneFuzz
import OpportuneIO
import OpportuneModels

/// Random requests, ends, cancellations and changes of state, against ``IOSchedulerModel``.
struct IOSchedulerProperty<Subject: RequestScheduler>: DrawnProperty {
  let name: String
  let isCanary: Bool
  let head = 8
  let grain = 6
  private static var appsMax: Int { 4 }

  init(_ subject: Subject.Type, name: String = "io-scheduler", isCanary: Bool = false) {
    self.name = name
    self.isCanary = isCanary
  }

  var summary: String {
    isCanary
      ? "A planted bug that must be found: now and then a cancelled request is not given back."
      : "Each request to a device ends once, in its app's order and none of a suspended app; ratio, depth, cap and "
        + "rates hold; what may go is not held back; what is donated goes as foreground; apps take turns."
  }

  func draw(_ generator: inout SplitMix64) -> [UInt8] {
    // Most are short; a few long enough for what only shows in the long run.
    let steps = Int.random(
      in: 1...(Int.random(in: 0..<32, using: &generator) == 0 ? 500 : 80), using: &generator)
    return generator.bytes(head + grain * steps)
  }

  func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
    var (head, steps) = parts(of: input)
    let policy = Self.policy(&head)
    var world = World(Subject(policy, now: 0), IOSchedulerModel(policy, now: 0))
    log.note(
      "policy: ratio \(policy.ratio.foreground):\(policy.ratio.background), depth \(policy.depth), cap \(policy.cap)\(policy.yieldsToForeground ? ", yielding" : ""), bytes \(policy.bytes.map { "\($0.perSecond)/s" } ?? "free"), requests \(policy.operations.map { "\($0.perSecond)/s" } ?? "free"), queued \(policy.queuedRequests)"
    )
    for app in 0..<Self.appsMax { world.add(app, app % 2 == 0 ? .active : .background) }
    for var bytes in steps {
      world.step(&bytes, &log)
      try world.judge()
    }
    try world.drain(&log)
  }

  private static func policy(_ bytes: inout ByteSource) -> DevicePolicy {
    let shares = [(100, 0), (90, 10), (80, 20), (75, 25), (50, 50), (0, 100), (3, 2), (1, 7)]
    let (foreground, background) = bytes.choice(shares)
    var policy = DevicePolicy()
    policy.ratio = (try? Ratio(foreground: foreground, background: background)) ?? .even
    policy.depth = bytes.choice([1, 2, 3, 4, 8, 64])
    policy.cap = bytes.choice([
      .none, .none, .fixed(1), .fixed(3), .fixed(9), .adaptive(target: .microseconds(50), maximum: 8),
    ])
    policy.yieldsToForeground = bytes.flag()
    policy.bytes = bytes.choice([
      nil, nil, .init(perSecond: 10_000_000, burst: 50_000), .init(perSecond: 100_000, burst: 600),
    ])
    policy.operations = bytes.choice([nil, nil, nil, .init(perSecond: 1000, burst: 3)])
    policy.queuedRequests = bytes.flag() ? .stay : .follow
    policy.limitsInactive = bytes.flag()
    return policy
  }

  /// A scheduler, its model and the time.
  private struct World {
    private var subject: Subject
    private var model: IOSchedulerModel
    private var now: UInt64 = 0
    private var lastItem = 0

    init(_ subject: Subject, _ model: IOSchedulerModel) {
      self.subject = subject
      self.model = model
    }

    mutating func add(_ app: Int, _ state: IOState) {
      subject.addApp(app, state: state)
      model.added(app, state)
    }

    func judge() throws(Violation) {
      if let problem = model.problems.first { throw Violation(problem) }
    }

    mutating func step(_ bytes: inout ByteSource, _ log: inout StepLog) {
      let kind = bytes.below(16)
      let app = bytes.below(IOSchedulerProperty.appsMax)
      switch kind {
      case 0...4:
        let cost = Subject.Cost(bytes: UInt64(bytes.below(60_000)), occupies: !bytes.flag())
        submit(app, cost, isDonated: bytes.below(8) == 7, &log)
      case 5...8:
        now += UInt64(bytes.below(20_000))
        ask(&log)
      case 9...10: end(bytes.byte(), after: UInt64(bytes.below(60_000)), isRest: bytes.flag(), &log)
      case 11: bytes.flag() ? donate(bytes.byte(), &log) : cancel(bytes.byte(), &log)
      case 12...13:
        change(app, bytes.choice(IOState.allCases), takesDonations: bytes.below(4) != 3, &log)
      case 14: abandon(bytes.byte(), &log)
      default: bytes.below(4) == 0 ? exchange(app, &log) : wait(&log)
      }
      model.sees(queued: subject.queued, inFlight: subject.inFlight)
    }

    private mutating func submit(
      _ app: Int, _ cost: Subject.Cost, at former: Subject.Ticket? = nil, isDonated: Bool = false,
      _ log: inout StepLog
    ) {
      lastItem += 1
      log.note(
        "submit \(lastItem) of app\(app), \(cost.bytes) bytes\(cost.occupies ? "" : ", waits for others")\(isDonated ? ", donated" : "")\(former == nil ? "" : ", where it was")"
      )
      let ticket = subject.submit(lastItem, app: app, cost: cost, at: former, isDonated: isDonated)
      model.submitted(lastItem, app: app, cost, isDonated: isDonated, giving: ticket)
    }

    private mutating func ask(_ log: inout StepLog) {
      log.note("next at \(now) ns")
      let grant = subject.next(now: now)
      log.add(": \(grant.map { "\($0.item) as \($0.ioClass)" } ?? "nothing")")
      model.asked(now: now, giving: grant)
      if grant == nil, let wake = subject.wakeTime(now: now), wake <= now {
        log.add(", to be woken at \(wake) ns")
        model.wakesTooEarly()
      }
    }

    private mutating func end(_ pick: UInt8, after span: UInt64, isRest: Bool, _ log: inout StepLog) {
      guard !model.inFlight.isEmpty else { return }
      let grant = model.finished(Int(pick) % model.inFlight.count)
      log.note("\(grant.item) ends")
      let sent = now
      now += span
      subject.finished(grant, sentAt: sent, queuedAt: sent, now: now)
      // The rest of a request that was cut goes back to its place.
      if isRest, model.isThere(grant.ticket.app) {
        submit(grant.ticket.app, grant.cost, at: grant.ticket, &log)
      }
    }

    private mutating func cancel(_ pick: UInt8, _ log: inout StepLog) {
      let items = model.queuedItems
      guard !items.isEmpty, let ticket = model.ticket(of: items[Int(pick) % items.count]) else { return }
      let item = items[Int(pick) % items.count]
      log.note("cancel \(item)")
      let result = subject.cancel(ticket)
      model.cancelled(item, giving: result)
    }

    private mutating func donate(_ pick: UInt8, _ log: inout StepLog) {
      let items = model.queuedItems
      guard !items.isEmpty, let ticket = model.ticket(of: items[Int(pick) % items.count]) else { return }
      let item = items[Int(pick) % items.count]
      log.note("somebody waits for \(item)")
      let result = subject.donate(to: ticket)
      model.donated(to: item, giving: result)
    }

    private mutating func change(
      _ app: Int, _ state: IOState, takesDonations: Bool, _ log: inout StepLog
    ) {
      log.note("app\(app) becomes \(state)\(takesDonations ? "" : ", and is not helped")")
      subject.setState(state, of: app, takesDonations: takesDonations)
      model.changed(app, state, takesDonations: takesDonations)
    }

    private mutating func abandon(_ pick: UInt8, _ log: inout StepLog) {
      guard !model.inFlight.isEmpty else { return }
      let grant = model.abandoned(Int(pick) % model.inFlight.count)
      log.note("\(grant.item) is not used")
      subject.abandon(grant)
    }

    private mutating func exchange(_ app: Int, _ log: inout StepLog) {
      guard model.isThere(app) else {
        log.note("app\(app) is added")
        return add(app, .active)
      }
      log.note("app\(app) is removed")
      let items = subject.removeApp(app)
      model.removed(app, giving: items)
    }

    private mutating func wait(_ log: inout StepLog) {
      guard let wake = subject.wakeTime(now: now) else { return }
      log.note("wait until \(wake) ns")
      now = max(now, min(wake, now + 1 << 50))
    }

    /// With everybody running, all ends come and all tokens too, what is left comes out.
    mutating func drain(_ log: inout StepLog) throws(Violation) {
      for app in 0..<IOSchedulerProperty.appsMax where model.isThere(app) {
        change(app, app % 2 == 0 ? .active : .background, takesDonations: true, &log)
      }
      // A request may be paid for in some hundreds of instalments.
      var (rounds, left) = (0, model.queuedCount)
      while model.queuedCount > 0 {
        rounds = model.queuedCount < left ? 0 : rounds + 1
        left = model.queuedCount
        if rounds == 1000 { throw Violation("\(model.queuedItems) never come out") }
        while !model.inFlight.isEmpty { end(0, after: 0, isRest: false, &log) }
        now = max(now, subject.wakeTime(now: now) ?? now)
        ask(&log)
        try judge()
      }
    }
  }
}
