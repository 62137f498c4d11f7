internal import OpportuneBase

/// A host in virtual time: the same system with a clock that only the host advances, and a log in place of
/// apps.
///
/// It responds for the apps according to their ``Behaviour``. The same events give the same log, bit for bit;
/// ``hash`` is the hash of the log. Not thread-safe: a value.
package struct VirtualHost: Sendable {
  package private(set) var system: AppSystem
  /// The log, if ``keepsLog``.
  package private(set) var log: [AppHost.Event] = []
  /// The hash of the log, kept or not: FNV-1a, 64 bits, over its lines.
  package private(set) var hash: UInt64 = 0xcbf2_9ce4_8422_2325
  package private(set) var events = 0
  package private(set) var effects = 0
  package var keepsLog: Bool
  /// Whether the hash is computed; it costs more than all the rest.
  package var hashesLog: Bool
  /// The behaviour of apps that have none of their own.
  package var behaviour = Behaviour()
  private var behaviours: [AppID: Behaviour] = [:]
  private var agenda = Agenda()
  /// Counts the lives of each app, so that responses of an earlier life are dropped.
  private var lives: [UInt32] = []

  /// - Throws: ``PolicyError``.
  package init(policy: AppsPolicy = .standard, keepsLog: Bool = true, hashesLog: Bool = true)
    throws(PolicyError)
  {
    system = try AppSystem(policy: policy)
    self.keepsLog = keepsLog
    self.hashesLog = hashesLog
  }

  package var now: Moment { system.now }

  package mutating func register(_ manifest: Manifest, behaviour: Behaviour? = nil) -> AppID {
    let id = system.register(manifest)
    lives.append(0)
    if let behaviour { behaviours[id] = behaviour }
    return id
  }

  /// Handles an event now.
  package mutating func post(_ event: SystemEvent) throws(AppsError) {
    events += 1
    let effects = try system.handle(event, at: system.now)
    answer(effects)
    actUntilNow()
  }

  package mutating func post(_ event: AppEvent, _ id: AppID) throws(AppsError) { try post(.app(id, event)) }
  package mutating func post(_ action: AppAction, _ id: AppID) throws(AppsError) {
    try post(.app(id, .does(action)))
  }

  /// Advances the clock to a moment, and handles everything that is due until then.
  ///
  /// - Throws: ``AppsError``: `clockWentBack`.
  package mutating func run(until end: Moment) throws(AppsError) {
    guard end >= now else { throw AppsError(.clockWentBack(from: now, to: end)) }
    while try step(until: end) {}
    answer(try system.advance(to: end))
    actUntilNow()
  }

  /// Handles what is due next, unless that is after `end`, and the apps' immediate responses. Returns whether
  /// there was anything due.
  package mutating func step(until end: Moment) throws(AppsError) -> Bool {
    let deadline = system.nextDeadline ?? .distantFuture
    let answer = agenda.next ?? .distantFuture
    let next = min(deadline, answer)
    guard next <= end else { return false }
    // Responses come first: an event at the very moment of a limit is in time.
    if answer <= deadline { act() } else { self.answer(try system.advance(to: next)) }
    actUntilNow()
    return true
  }

  package mutating func run(for span: Duration) throws(AppsError) { try run(until: now + span) }

  // MARK: Responses

  /// Handles the apps' immediate responses.
  private mutating func actUntilNow() { while let next = agenda.next, next <= now { act() } }

  private mutating func act() {
    guard let (moment, item) = agenda.pop(), item.life == lives[item.app.number] else { return }
    // If another event came in between, the request may be obsolete; its response is dropped.
    if let effects = try? system.handle(.app(item.app, item.event), at: max(now, moment)) {
      events += 1
      answer(effects)
    }
    let late = system.takeEffects()
    if !late.isEmpty { answer(late) }
  }

  private mutating func answer(_ effects: [Effect]) {
    for effect in effects {
      self.effects += 1
      record(effect)
      let behaviour = behaviours[effect.app] ?? behaviour
      switch effect.action {
      case .lifecycle(.start): lives[effect.app.number] &+= 1
      case .lifecycle(.deliver(let callback)): plan(behaviour.callback, .returned(callback), effect.app)
      case .lifecycle(.stopExecution): plan(behaviour.slice, .stopped, effect.app)
      case .lifecycle(.takeBack): plan(behaviour.reaping, .reaped, effect.app)
      case .expire(let task): plan(behaviour.expiration, .does(.endTask(task)), effect.app)
      case .deliver, .data, .locationEvent, .completion: plan(behaviour.handling, .does(.handled), effect.app)
      case .heartbeat: plan(behaviour.handling, .does(.heartbeatSent), effect.app)
      case .fetch: plan(behaviour.fetch, .does(.fetched(behaviour.fetchResult)), effect.app)
      case .lifecycle, .launched, .moved, .ignored, .restrict, .taskBegan, .taskRefused, .taskEnded,
        .pauseAudio,
        .resumeAudio, .coalesced, .notify, .ask, .granted, .denied, .revoked, .lockGranted, .lockRevoked,
        .diagnose:
        break
      }
    }
  }

  private mutating func plan(_ delay: Duration?, _ event: AppEvent, _ id: AppID) {
    guard let delay else { return }
    var moment = system.now + delay
    // Callbacks run one after the other.
    if case .returned = event { moment = max(moment, (agenda.lastReturn[id] ?? .zero) + delay) }
    agenda.push(moment, id, event, life: lives[id.number])
    if case .returned = event { agenda.lastReturn[id] = moment }
  }

  private mutating func record(_ effect: Effect) {
    let entry = AppHost.Event(moment: system.now, app: effect.app, action: effect.action)
    if keepsLog { log.append(entry) }
    guard hashesLog else { return }
    for byte in entry.description.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
    hash = (hash ^ 10) &* 0x100_0000_01b3
  }
}

/// The planned responses of virtual apps, by time and then in the order of planning.
private struct Agenda: Sendable {
  struct Item: Sendable {
    let app: AppID
    let event: AppEvent
    let life: UInt32
  }

  private var items = TimeQueue<Moment, Item>()
  /// When the last callback of an app returns.
  var lastReturn: [AppID: Moment] = [:]

  var next: Moment? { items.next }

  mutating func push(_ moment: Moment, _ app: AppID, _ event: AppEvent, life: UInt32) {
    items.add(Item(app: app, event: event, life: life), at: moment)
  }

  mutating func pop() -> (moment: Moment, item: Item)? { items.popFirst().map { ($0.time, $0.value) } }
}
