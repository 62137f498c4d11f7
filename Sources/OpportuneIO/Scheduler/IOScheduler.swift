import DequeModule
internal import OpportuneBase
import OpportuneScheduler

/// The I/O scheduler of one device: queues of requests by app and class, and all limits on background.
///
/// A pure state machine: no I/O, and no clock but the `now` (nanoseconds) of its calls. The reactor uses it;
/// so do tests and simulations.
///
/// Invariants:
///  - A submitted item is returned by exactly one of `next`, `cancel` and `removeApp`.
///  - The queue of each app and class is in the order of tickets.
///  - A queued request is in the class that `ioClass(of:)` says: that of its app, or the foreground's where
///    somebody of the foreground waits for who asked for it, and the app may be helped.
///  - An app that has requests queued in a class, and is not suspended, is in `ready` of that class, once.
package struct IOScheduler<Item> {
  /// The cost of a request.
  package struct Cost: Equatable, Sendable {
    /// Bytes; paid by background only, whatever the class in which the request was queued.
    package var bytes: UInt64
    /// Whether the request occupies the device while it is in flight. A receive or an accept waits for a
    /// peer, so it does not.
    package var occupies = true

    package init(bytes: UInt64, occupies: Bool = true) {
      self.bytes = bytes
      self.occupies = occupies
    }
  }

  /// Identifies a queued request.
  package struct Ticket: Equatable, Sendable {
    package let number: UInt64
    package let app: Int
    /// The class in which it was submitted.
    package let origin: IOClass
  }

  package struct Grant {
    package let item: Item
    package let ticket: Ticket
    package let ioClass: IOClass
    package let cost: Cost
  }

  private struct App {
    var state: IOState
    var ioClass: IOClass
    /// Whether its donated requests go in the foreground's class.
    var takesDonations = true
    var queues = [Queue(), Queue()]
    var isReady = [false, false]
  }

  package let policy: DevicePolicy
  private var apps: [App?] = []
  private var ready: [Deque<Int>] = [[], []]
  private var turn: RatioTurn
  private var lastNumber: UInt64 = 0
  private(set) var adaptive: AdaptiveCap?
  private(set) var bytes: TokenBucket?
  private(set) var operations: TokenBucket?
  /// Background bytes that have arrived and were not paid for in advance.
  private(set) var debt: UInt64 = 0
  package private(set) var inFlight = [0, 0]
  /// Foreground requests that are at the device without having been granted here: reads that wait on their
  /// callers' threads.
  package var foregroundElsewhere = 0
  /// What background has of its cap and of its rates, 1 to 8 eighths: what apps' targets leave it.
  package var backgroundEighths = DeviceShare.whole {
    didSet {
      bytes?.eighths = backgroundEighths
      operations?.eighths = backgroundEighths
    }
  }
  package private(set) var queued = [0, 0]
  /// Whether the cap has held background back since the last foreground request ended.
  private var capWasReached = false

  package init(_ policy: DevicePolicy, now: UInt64) {
    self.policy = policy
    turn = RatioTurn(policy.ratio)
    bytes = policy.bytes.map { TokenBucket(rate: UInt64($0.perSecond), burst: UInt64($0.burst), now: now) }
    operations = policy.operations.map {
      TokenBucket(rate: UInt64($0.perSecond), burst: UInt64($0.burst), now: now)
    }
    if case .adaptive(let target, let maximum) = policy.cap {
      adaptive = AdaptiveCap(targetNanoseconds: target.unsignedNanoseconds, maximum: maximum)
    }
  }

  // MARK: Apps

  /// - Parameter app: a small number of the caller's choice.
  package mutating func addApp(_ app: Int, state: IOState) {
    while apps.count <= app { apps.append(nil) }
    apps[app] = App(state: state, ioClass: policy.ioClass(of: state))
  }

  /// Removes the app and returns the items that it had queued, oldest first.
  package mutating func removeApp(_ app: Int) -> [Item] {
    guard let gone = self[app] else { return [] }
    apps[app] = nil
    for ioClass in IOClass.allCases {
      queued[ioClass.index] -= gone.queues[ioClass.index].count
      ready[ioClass.index].removeAll { $0 == app }
    }
    let entries = gone.queues.flatMap(\.entries)
    for entry in entries { refundInstalments(of: entry) }
    return entries.sorted { $0.ticket.number < $1.ticket.number }.map(\.item)
  }

  /// - Parameter takesDonations: whether the app's donated requests go in the foreground's class: false where
  ///   its host has put it into the background's on this device, whoever waits.
  package mutating func setState(_ state: IOState, of app: Int, takesDonations: Bool = true) {
    guard let before = self[app], before.state != state || before.takesDonations != takesDonations else {
      return
    }
    apps[app]?.state = state
    if state == .suspended {
      for ioClass in IOClass.allCases {
        ready[ioClass.index].removeAll { $0 == app }
        apps[app]?.isReady[ioClass.index] = false
      }
      return
    }
    apps[app]?.ioClass = policy.ioClass(of: state)
    apps[app]?.takesDonations = takesDonations
    for ioClass in IOClass.allCases { moveQueued(of: app, to: ioClass) }
    for ioClass in IOClass.allCases { makeReady(app, ioClass) }
  }

  /// The class of a queued request. It takes no copy of the app: that would force one of its queues.
  private func ioClass(of entry: Entry) -> IOClass {
    let app = entry.ticket.app
    if entry.isDonated, apps[app]?.takesDonations == true { return .foreground }
    return policy.queuedRequests == .stay ? entry.ticket.origin : apps[app]?.ioClass ?? .background
  }

  /// Somebody of the foreground waits for who has asked for this: the request moves up from the background's
  /// queue, to where its ticket stands in the foreground's. False where it is not queued any more.
  package mutating func donate(to ticket: Ticket) -> Bool {
    guard apps.indices.contains(ticket.app) else { return false }
    for ioClass in IOClass.allCases
    where apps[ticket.app]?.queues[ioClass.index].setDonated(ticket.number) == true {
      guard ioClass == .background, apps[ticket.app]?.takesDonations == true,
        let entry = apps[ticket.app]?.queues[ioClass.index].remove(ticket.number)
      else { return true }
      refundInstalments(of: entry)
      queued[IOClass.background.index] -= 1
      insert(entry, .foreground)
      return true
    }
    return false
  }

  /// Queues an entry at its ticket's place.
  private mutating func insert(_ entry: Entry, _ ioClass: IOClass) {
    var entry = entry
    entry.due = entry.cost.bytes
    apps[entry.ticket.app]?.queues[ioClass.index].insert(entry)
    queued[ioClass.index] += 1
    makeReady(entry.ticket.app, ioClass)
  }

  /// Moves what belongs there from the other class.
  private mutating func moveQueued(of app: Int, to ioClass: IOClass) {
    let other = ioClass.other.index
    guard let present = self[app], !present.queues[other].isEmpty else { return }
    let others = present.queues[other].entries
    let moving = others.filter { self.ioClass(of: $0) == ioClass }
    if moving.isEmpty { return }
    let staying = others.filter { self.ioClass(of: $0) != ioClass }
    var merged = present.queues[ioClass.index].entries
    queued[other] -= moving.count
    queued[ioClass.index] += moving.count
    for var entry in moving {
      refundInstalments(of: entry)
      entry.due = entry.cost.bytes
      merged.append(entry)
    }
    merged.sort { $0.ticket.number < $1.ticket.number }
    apps[app]?.queues[ioClass.index] = Queue(merged)
    apps[app]?.queues[other] = Queue(staying)
  }

  private subscript(app: Int) -> App? { apps.indices.contains(app) ? apps[app] : nil }

  private mutating func makeReady(_ app: Int, _ ioClass: IOClass) {
    let index = ioClass.index
    guard apps.indices.contains(app), let entry = apps[app], entry.state != .suspended, !entry.isReady[index],
      !entry.queues[index].isEmpty
    else { return }
    apps[app]?.isReady[index] = true
    ready[index].append(app)
  }

  // MARK: Requests

  /// Queues an item in its app's current class, or in the foreground's if somebody there waits for who asks.
  /// With `at`, puts the rest of an item that was granted before back at its position. Returns nil for an
  /// unknown app.
  package mutating func submit(
    _ item: Item, app: Int, cost: Cost, at former: Ticket? = nil, isDonated: Bool = false
  ) -> Ticket? {
    guard apps.indices.contains(app), let present = apps[app]?.ioClass else { return nil }
    let ticket: Ticket
    if let former {
      ticket = former
    } else {
      lastNumber += 1
      ticket = Ticket(number: lastNumber, app: app, origin: present)
    }
    let entry = Entry(ticket: ticket, item: item, cost: cost, isDonated: isDonated, due: cost.bytes)
    let ioClass = ioClass(of: entry)
    if former != nil {
      apps[app]?.queues[ioClass.index].insert(entry)
    } else {
      apps[app]?.queues[ioClass.index].append(entry)
    }
    queued[ioClass.index] += 1
    makeReady(app, ioClass)
    return ticket
  }

  /// Removes a queued item; nil where it is not queued any more.
  package mutating func cancel(_ ticket: Ticket) -> Item? {
    guard apps.indices.contains(ticket.app) else { return nil }
    for ioClass in IOClass.allCases {
      guard let entry = apps[ticket.app]?.queues[ioClass.index].remove(ticket.number) else { continue }
      queued[ioClass.index] -= 1
      refundInstalments(of: entry)
      return entry.item
    }
    return nil
  }

  /// Figures of an app's queue, for tests. It does not return the queue: a second reference would force a
  /// copy at the next change.
  func look(at ioClass: IOClass, of app: Int) -> (looks: Int, room: Int, storage: UnsafeRawPointer?) {
    guard apps.indices.contains(app), let queue = apps[app]?.queues[ioClass.index] else { return (0, 0, nil) }
    return (queue.looks, queue.room, queue.storage)
  }

  private mutating func refundInstalments(of entry: Entry) {
    if entry.due < entry.cost.bytes { bytes?.giveBack(entry.cost.bytes - entry.due) }
  }

  /// Grants the next request to the device, if one may go now.
  package mutating func next(now: UInt64) -> Grant? {
    bytes?.advance(to: now)
    operations?.advance(to: now)
    let hasForeground = front(.foreground) != nil
    let wantsForeground = hasForeground && hasRoom(.foreground)
    let mayBackground = front(.background) != nil && payForBackground()
    if wantsForeground, mayBackground {
      let choice = turn.next
      turn.take()
      return grant(choice)
    }
    if wantsForeground { return grant(.foreground) }
    // Strict: background does not go even if foreground waits only for room.
    if mayBackground, !(hasForeground && policy.ratio.isStrict) { return grant(.background) }
    return nil
  }

  /// When background work that waits only for tokens may continue; nil where it does not wait, or waits for
  /// something else as well.
  package func wakeTime(now: UInt64) -> UInt64? {
    guard let app = ready[1].first(where: { self[$0]?.queues[1].isEmpty == false }),
      let entry = self[app]?.queues[1].first, isWithinCap(entry.cost)
    else { return nil }
    if policy.ratio.isStrict, foregroundWaits { return nil }
    // At most half of the bucket, so that tokens which arrive while a wake-up is late still fit.
    let instalment = bytes.map { min(entry.due > 0 ? debt + entry.due : 0, max(1, $0.burst / 2)) } ?? 0
    let wait = max(bytes?.wait(for: instalment) ?? 0, operations?.wait(for: 1) ?? 0)
    return wait > 0 ? now + wait : nil
  }

  /// Takes back an unused grant.
  package mutating func abandon(_ grant: Grant) {
    assert(!grant.cost.occupies || inFlight[grant.ioClass.index] > 0)
    if grant.cost.occupies { inFlight[grant.ioClass.index] -= 1 }
    guard grant.ioClass == .background else { return }
    bytes?.giveBack(grant.cost.bytes)
    operations?.giveBack(1)
  }

  /// A granted request has ended.
  package mutating func finished(_ grant: Grant, sentAt: UInt64, queuedAt: UInt64, now: UInt64) {
    guard grant.cost.occupies else { return }
    assert(inFlight[grant.ioClass.index] > 0)
    inFlight[grant.ioClass.index] -= 1
    // Not where only a part of the adaptive cap holds, or it would grow until that part is as much as the
    // whole was.
    let wasLimiting = capWasReached && backgroundEighths == DeviceShare.whole
    switch grant.ioClass {
    case .foreground:
      adaptive?.foregroundFinished(
        sentAt: sentAt, latency: now > queuedAt ? now - queuedAt : 0, now: now, wasLimiting: wasLimiting)
      capWasReached = false
    case .background:
      // A foreground request that still waits may be late already.
      guard inFlight[0] == 0, queued[0] == 0 else { return }
      adaptive?.backgroundFinished(now: now, wasLimiting: wasLimiting)
    }
  }

  /// A granted transfer has moved this many bytes. Tokens for bytes that did not come are given back.
  /// Additional bytes become a debt, which is paid before background moves anything else.
  package mutating func charge(_ grant: Grant, moved: UInt64) {
    guard grant.ioClass == .background, bytes != nil else { return }
    if moved < grant.cost.bytes {
      bytes?.giveBack(grant.cost.bytes - moved)
    } else {
      debt += moved - grant.cost.bytes
    }
  }

  /// How many background requests may be in flight while background does not yield.
  var cap: Int {
    let most = policy.mostBackground
    return max(1, min(adaptive?.value ?? most, most) * backgroundEighths / DeviceShare.whole)
  }

  /// The part of the cap that background may use now.
  private var capNow: Int {
    guard policy.yieldsToForeground, foregroundInFlight > 0, case .fixed(let count) = policy.cap else {
      return cap
    }
    return min(max(1, count / 4), cap)
  }

  // MARK: Granting

  /// The app whose turn it is in a class. Apps without queued requests are removed from the round here.
  private mutating func front(_ ioClass: IOClass) -> Int? {
    while let app = ready[ioClass.index].first {
      if self[app]?.queues[ioClass.index].isEmpty == false { return app }
      ready[ioClass.index].removeFirst()
      apps[app]?.isReady[ioClass.index] = false
    }
    return nil
  }

  private func hasRoom(_ ioClass: IOClass) -> Bool {
    guard let app = ready[ioClass.index].first, let entry = self[app]?.queues[ioClass.index].first else {
      return false
    }
    return !entry.cost.occupies || foregroundInFlight + inFlight[1] < policy.depth
  }

  /// The last slot of the depth is reserved for foreground requests that arrive later. If a foreground
  /// request waits already, the turn decides instead. Otherwise each free slot would go to the next
  /// foreground request, and background would starve for as long as foreground fills the device.
  private func isWithinCap(_ cost: Cost) -> Bool {
    let room = foregroundWaits ? policy.depth : max(1, policy.depth - 1)
    return !cost.occupies || (inFlight[1] < capNow && foregroundInFlight + inFlight[1] < room)
  }

  private var foregroundInFlight: Int { inFlight[0] + foregroundElsewhere }

  /// Whether background that waits may be held back by ``foregroundElsewhere``.
  package var yieldsElsewhere: Bool {
    policy.yieldsToForeground && foregroundElsewhere > 0 && queued[1] > 0
  }

  private var foregroundWaits: Bool { ready[0].contains { self[$0]?.queues[0].isEmpty == false } }

  /// Whether cap and tokens let the first background request go. It pays in instalments with the tokens that
  /// are there. So its cost may exceed the burst, the level is never negative, and no tokens are lost to a
  /// full bucket while it waits.
  private mutating func payForBackground() -> Bool {
    guard let app = ready[1].first, var entry = self[app]?.queues[1].first else { return false }
    guard isWithinCap(entry.cost) else {
      capWasReached = true
      return false
    }
    guard (operations?.available ?? 1) >= 1 else { return false }
    guard bytes != nil, entry.due > 0 else { return true }
    assert(entry.due <= entry.cost.bytes)
    debt -= bytes?.takeUp(to: debt) ?? 0
    guard debt == 0 else { return false }
    entry.due -= bytes?.takeUp(to: entry.due) ?? 0
    apps[app]?.queues[1].setDue(entry.due)
    return entry.due == 0
  }

  private mutating func grant(_ ioClass: IOClass) -> Grant? {
    let index = ioClass.index
    guard let app = ready[index].popFirst(), let entry = apps[app]?.queues[index].popFirst() else {
      return nil
    }
    assert(queued[index] > 0)
    queued[index] -= 1
    apps[app]?.isReady[index] = false
    makeReady(app, ioClass)
    if ioClass == .background {
      _ = operations?.take(1)
    }
    if entry.cost.occupies { inFlight[index] += 1 }
    return Grant(item: entry.item, ticket: entry.ticket, ioClass: ioClass, cost: entry.cost)
  }
}

extension IOClass {
  var index: Int { Int(rawValue) }
  var other: IOClass { self == .foreground ? .background : .foreground }
}
