import OpportuneIO

/// What the broker's reactor requires of an I/O scheduler; a protocol, so that the judge can be tested on a
/// broken one.
package protocol RequestScheduler {
  typealias Cost = IOScheduler<Int>.Cost
  typealias Ticket = IOScheduler<Int>.Ticket
  typealias Grant = IOScheduler<Int>.Grant

  init(_ policy: DevicePolicy, now: UInt64)
  var queued: [Int] { get }
  var inFlight: [Int] { get }
  mutating func addApp(_ app: Int, state: IOState)
  mutating func removeApp(_ app: Int) -> [Int]
  mutating func setState(_ state: IOState, of app: Int, takesDonations: Bool)
  mutating func submit(_ item: Int, app: Int, cost: Cost, at former: Ticket?, isDonated: Bool) -> Ticket?
  mutating func donate(to ticket: Ticket) -> Bool
  mutating func cancel(_ ticket: Ticket) -> Int?
  mutating func next(now: UInt64) -> Grant?
  func wakeTime(now: UInt64) -> UInt64?
  mutating func abandon(_ grant: Grant)
  mutating func finished(_ grant: Grant, sentAt: UInt64, queuedAt: UInt64, now: UInt64)
}

extension IOScheduler: RequestScheduler where Item == Int {}

/// A scheduler with a bug planted in it: the real one, but for what it overrides.
package protocol BrokenScheduler: RequestScheduler { var scheduler: IOScheduler<Int> { get set } }

extension BrokenScheduler {
  package var queued: [Int] { scheduler.queued }
  package var inFlight: [Int] { scheduler.inFlight }
  package mutating func addApp(_ app: Int, state: IOState) { scheduler.addApp(app, state: state) }
  package mutating func removeApp(_ app: Int) -> [Int] { scheduler.removeApp(app) }
  package mutating func setState(_ state: IOState, of app: Int, takesDonations: Bool) {
    scheduler.setState(state, of: app, takesDonations: takesDonations)
  }
  package mutating func submit(
    _ item: Int, app: Int, cost: Cost, at former: Ticket?, isDonated: Bool
  ) -> Ticket? {
    scheduler.submit(item, app: app, cost: cost, at: former, isDonated: isDonated)
  }
  package mutating func donate(to ticket: Ticket) -> Bool { scheduler.donate(to: ticket) }
  package mutating func cancel(_ ticket: Ticket) -> Int? { scheduler.cancel(ticket) }
  package mutating func next(now: UInt64) -> Grant? { scheduler.next(now: now) }
  package func wakeTime(now: UInt64) -> UInt64? { scheduler.wakeTime(now: now) }
  package mutating func abandon(_ grant: Grant) { scheduler.abandon(grant) }
  package mutating func finished(_ grant: Grant, sentAt: UInt64, queuedAt: UInt64, now: UInt64) {
    scheduler.finished(grant, sentAt: sentAt, queuedAt: queuedAt, now: now)
  }
}

/// What an I/O scheduler promises, over plain lists: each request ends once; an app's go in its order, and
/// none while it is suspended; the ratio, the depth, the cap and the rates hold; nothing that may go is held
/// back; apps take turns.
package final class IOSchedulerModel {
  package typealias Ticket = IOScheduler<Int>.Ticket
  package typealias Grant = IOScheduler<Int>.Grant
  private struct Queued {
    let ticket: Ticket
    let cost: IOScheduler<Int>.Cost
    var isDonated: Bool
  }

  private let policy: DevicePolicy
  private var queued: [Int: Queued] = [:]
  private var states: [Int: IOState] = [:]
  /// What an app's new requests are; a suspended app keeps what it had.
  private var classes: [Int: IOClass] = [:]
  /// The apps that may be helped by who waits for them; a suspended app keeps what it had.
  private var helped: Set<Int> = []
  package private(set) var inFlight: [Grant] = []
  package private(set) var problems: [String] = []
  /// The present run of turns, by class, while both waited and nothing but the ratio decided.
  private var turns = [0, 0]
  /// How often each other app of the class went since an app's turn: `passed[class][app]`.
  private var passed: [[Int: [Int: Int]]] = [[:], [:]]
  private var backgroundBytes: UInt64 = 0
  private var backgroundCount: UInt64 = 0
  private let begun: UInt64

  package init(_ policy: DevicePolicy, now: UInt64) {
    self.policy = policy
    begun = now
  }

  package var queuedCount: Int { queued.count }
  package func isThere(_ app: Int) -> Bool { states[app] != nil }
  package func state(of app: Int) -> IOState? { states[app] }
  package var queuedItems: [Int] { queued.keys.sorted() }
  package func ticket(of item: Int) -> Ticket? { queued[item]?.ticket }

  private func expect(_ holds: Bool, _ problem: @autoclosure () -> String) {
    if !holds { problems.append(problem()) }
  }

  private func ioClass(of state: IOState) -> IOClass {
    switch state {
    case .active: .foreground
    case .inactive: policy.limitsInactive ? .background : .foreground
    case .background, .suspended: .background
    }
  }

  private func ioClass(of entry: Queued) -> IOClass {
    if entry.isDonated, helped.contains(entry.ticket.app) { return .foreground }
    return policy.queuedRequests == .stay ? entry.ticket.origin : classes[entry.ticket.app] ?? .background
  }

  private func waiting(_ ioClass: IOClass) -> [Queued] {
    queued.values.filter { states[$0.ticket.app] != .suspended && self.ioClass(of: $0) == ioClass }
  }

  // MARK: What was done

  package func added(_ app: Int, _ state: IOState) {
    states[app] = state
    classes[app] = ioClass(of: state)
    helped.insert(app)
  }

  package func changed(_ app: Int, _ state: IOState, takesDonations: Bool) {
    guard states[app] != nil else { return }
    states[app] = state
    if state != .suspended {
      classes[app] = ioClass(of: state)
      if takesDonations { helped.insert(app) } else { helped.remove(app) }
    }
    passed = [[:], [:]]
  }

  package func removed(_ app: Int, giving items: [Int]) {
    let own = queued.filter { $0.value.ticket.app == app }
    let expected = own.sorted { $0.value.ticket.number < $1.value.ticket.number }.map(\.key)
    expect(items == expected, "the removed app\(app) had \(expected) queued, and \(items) came back")
    for item in own.keys { queued[item] = nil }
    states[app] = nil
    classes[app] = nil
    passed = [[:], [:]]
  }

  package func submitted(
    _ item: Int, app: Int, _ cost: IOScheduler<Int>.Cost, isDonated: Bool, giving ticket: Ticket?
  ) {
    expect(
      (ticket != nil) == (states[app] != nil), "app\(app) is \(states[app] == nil ? "not " : "")there, yet")
    guard let ticket else { return }
    expect(ticket.app == app, "the ticket is of app\(ticket.app), not of app\(app)")
    queued[item] = Queued(ticket: ticket, cost: cost, isDonated: isDonated)
  }

  package func donated(to item: Int, giving result: Bool) {
    expect(result == (queued[item] != nil), "a donation finds \(item) queued: \(result)")
    queued[item]?.isDonated = true
    passed = [[:], [:]]
  }

  package func cancelled(_ item: Int, giving result: Int?) {
    let entry = queued.removeValue(forKey: item)
    let isThere = entry != nil
    if let app = entry?.ticket.app {
      // Who has nothing to wait for has no turn either.
      for ioClass in IOClass.allCases where waiting(ioClass).allSatisfy({ $0.ticket.app != app }) {
        passed[Int(ioClass.rawValue)][app] = nil
      }
    }
    expect(
      (result == item) == isThere && (result == nil) == !isThere, "cancelling \(item) gave \(result ?? -1)")
  }

  package func finished(_ index: Int) -> Grant { inFlight.remove(at: index) }

  package func abandoned(_ index: Int) -> Grant {
    let grant = inFlight.remove(at: index)
    if grant.ioClass == .background {
      backgroundBytes -= min(backgroundBytes, grant.cost.bytes)
      backgroundCount -= min(backgroundCount, 1)
    }
    return grant
  }

  package func wakesTooEarly() { problems.append("it is to be woken at once, where nothing may go") }

  /// After each step.
  package func sees(queued counts: [Int], inFlight flying: [Int]) {
    expect(counts.reduce(0, +) == queued.count, "\(counts) are said to be queued, and \(queued.count) are")
    for ioClass in IOClass.allCases {
      let own = queued.values.count { self.ioClass(of: $0) == ioClass }
      expect(
        counts[Int(ioClass.rawValue)] == own, "\(counts) are said to be queued, and \(own) of \(ioClass)")
      let sent = inFlight.count { $0.cost.occupies && $0.ioClass == ioClass }
      expect(
        flying[Int(ioClass.rawValue)] == sent, "\(flying) are said to be in flight, and \(sent) of \(ioClass)"
      )
    }
  }

  // MARK: What goes to the device

  private var occupied: Int { inFlight.count(where: \.cost.occupies) }
  private var occupiedByBackground: Int { inFlight.count { $0.cost.occupies && $0.ioClass == .background } }
  private var isLimited: Bool { policy.bytes != nil || policy.operations != nil }

  /// How many background requests may be in flight: at least so many, and never more.
  private var caps: ClosedRange<Int> {
    let room = max(1, policy.depth - 1)
    switch policy.cap {
    case .none: return room...room
    case .fixed(let count):
      let yields = policy.yieldsToForeground && occupied > occupiedByBackground
      let most = min(room, yields ? max(1, count / 4) : count)
      return most...most
    case .adaptive(_, let maximum): return 1...min(maximum, room)
    }
  }

  package func asked(now: UInt64, giving grant: Grant?) {
    let waiting = IOClass.allCases.map { self.waiting($0) }
    let hasRoom = occupied < policy.depth
    let mayBackground =
      hasRoom && occupiedByBackground < caps.lowerBound
      && (occupied < max(1, policy.depth - 1) || !waiting[0].isEmpty)
      && !(policy.ratio.isStrict && !waiting[0].isEmpty) && !isLimited
    guard let grant else {
      expect(
        waiting[0].isEmpty || !hasRoom,
        "foreground is held back though \(occupied) of \(policy.depth) are in flight")
      expect(waiting[1].isEmpty || !mayBackground, "background is held back by nothing")
      return
    }
    judge(grant, waiting, now: now, byTurn: hasRoom && mayBackground && waiting.allSatisfy { !$0.isEmpty })
    queued[grant.item] = nil
    inFlight.append(grant)
  }

  private func judge(_ grant: Grant, _ waiting: [[Queued]], now: UInt64, byTurn: Bool) {
    let (app, index) = (grant.ticket.app, Int(grant.ioClass.rawValue))
    guard let entry = queued[grant.item], entry.ticket == grant.ticket else {
      return problems.append("\(grant.item) goes twice, or was never submitted")
    }
    expect(entry.cost == grant.cost, "\(grant.item) costs \(entry.cost), not \(grant.cost)")
    expect(states[app] != .suspended, "\(grant.item) goes while app\(app) is suspended")
    expect(ioClass(of: entry) == grant.ioClass, "\(grant.item) goes as \(grant.ioClass)")
    let isFirst = waiting[index].allSatisfy {
      $0.ticket.app != app || $0.ticket.number >= grant.ticket.number
    }
    expect(isFirst, "\(grant.item) overtakes an earlier request of app\(app)")
    if grant.cost.occupies {
      expect(occupied < policy.depth, "\(occupied + 1) of \(policy.depth) are in flight")
    }
    if grant.ioClass == .background { judgeBackground(grant, waiting, now: now) }
    takeTurn(of: app, waiting[index], index)
    guard waiting.allSatisfy({ !$0.isEmpty }) else { return }
    judgeTurn(index, isSure: byTurn && policy.cap == .none)
  }

  /// Any run of turns is within one request of the ratio; where room decided, and not the ratio, a new run
  /// begins.
  private func judgeTurn(_ index: Int, isSure: Bool) {
    guard isSure else {
      turns = [0, 0]
      return
    }
    turns[index] += 1
    let sum = policy.ratio.foreground + policy.ratio.background
    let error = turns[1] * sum - (turns[0] + turns[1]) * policy.ratio.background
    expect(
      abs(error) <= sum,
      "\(turns) of \(policy.ratio.foreground):\(policy.ratio.background) went while both waited")
  }

  private func judgeBackground(_ grant: Grant, _ waiting: [[Queued]], now: UInt64) {
    if grant.cost.occupies {
      expect(
        occupiedByBackground < caps.upperBound, "\(occupiedByBackground + 1) of background are in flight")
      expect(
        policy.depth == 1 || occupied + 1 < policy.depth || !waiting[0].isEmpty,
        "background takes the last place of \(policy.depth), and no foreground waits")
    }
    expect(!policy.ratio.isStrict || waiting[0].isEmpty, "background goes before foreground, which is strict")
    backgroundBytes += grant.cost.bytes
    backgroundCount += 1
    for (rate, used, what) in [
      (policy.bytes, backgroundBytes, "bytes"), (policy.operations, backgroundCount, "requests"),
    ] {
      guard let rate else { continue }
      let earned = UInt128(rate.burst) + UInt128(now - begun) * UInt128(rate.perSecond) / 1_000_000_000
      expect(UInt128(used) <= earned, "\(used) \(what) of background went where \(earned) were allowed")
    }
  }

  /// Apps of a class take turns: while one waits, each other goes once at most.
  private func takeTurn(of app: Int, _ waiting: [Queued], _ index: Int) {
    passed[index][app] = nil
    let others = Set(waiting.map(\.ticket.app)).subtracting([app])
    passed[index] = passed[index].filter { others.contains($0.key) }
    for other in others {
      passed[index][other, default: [:]][app, default: 0] += 1
      let times = passed[index][other]?[app] ?? 0
      expect(times <= 1, "app\(app) goes \(times) times while app\(other) waits for its turn")
    }
  }
}
