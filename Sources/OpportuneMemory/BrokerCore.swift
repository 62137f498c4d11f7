internal import COpportune
import Glibc
internal import OpportuneBase
import Synchronization

/// What the broker and the memory of its apps share.
///
/// Nothing here waits, so that whoever needs memory is never held up by who looks after it: regions are in a
/// lock-free set, apps in a list that only grows.
final class BrokerCore: @unchecked Sendable {
  let configuration: MemoryConfiguration
  /// Thread-safe.
  let set: OpaquePointer
  let files = CleanPages()
  private let apps = LinkedStack<AppMemoryRecord>()
  /// Relaxed: each number is given once, in whatever order.
  private let numbers = Atomic<UInt32>(0)
  let clock: @Sendable () -> UInt64
  let remove: @Sendable (Removal) -> Void
  let use: MemoryUse
  /// Rung when the monitor, if there is one, should look.
  let notifier: Int32
  // Counts: relaxed.
  let purgedBytes = Atomic<UInt64>(0)
  let purges = Atomic<UInt64>(0)
  let walks = Atomic<UInt64>(0)

  init(
    _ configuration: MemoryConfiguration, clock: @escaping @Sendable () -> UInt64,
    remove: @escaping @Sendable (Removal) -> Void
  ) throws(MemoryError) {
    guard let set = opp_purge_set_create() else { throw .refused("no broker of memory", ENOMEM) }
    notifier = opp_watch_open()
    guard notifier >= 0 else {
      opp_purge_set_destroy(set)
      throw .refused("no broker of memory", -notifier)
    }
    if case .budget(let budget) = configuration.limit {
      use = MemoryUse(walkAt: configuration.gauge.critical.bytes(of: budget))
    } else {
      use = MemoryUse(walkAt: 0)
    }
    self.configuration = configuration
    self.set = set
    self.clock = clock
    self.remove = remove
  }

  deinit {
    opp_purge_set_destroy(set)
    opp_watch_close(notifier)
  }

  func ring() { opp_watch_notify(notifier) }

  // MARK: Apps

  func add(_ name: String, _ standing: AppStanding) -> AppMemoryRecord {
    let number = numbers.add(1, ordering: .relaxed).oldValue
    let record = AppMemoryRecord(number: number, name: name, standing: standing, now: clock())
    apps.push(record)
    return record
  }

  /// Newest first.
  func records() -> [AppMemoryRecord] {
    var list: [AppMemoryRecord] = []
    apps.visit { list.append($0) }
    return list
  }

  func setStanding(_ standing: AppStanding, of record: AppMemoryRecord) {
    // [drawing] acquiring: pairs with updateDrawing().
    let before =
      AppStanding(rawValue: record.standing.exchange(standing.rawValue, ordering: .acquiring)) ?? .gone
    // Releasing: whoever reads this count (acquiring, in survey) has the standing that goes with it.
    if standing > before { record.rises.add(1, ordering: .releasing) }
    if before.isForeground || standing.isForeground {
      record.used.store(clock(), ordering: .relaxed)
      record.wasInFront.store(true, ordering: .relaxed)
    }
    record.isLeaving.store(false, ordering: .relaxed)
    record.hasReturnedAll.store(false, ordering: .relaxed)
    guard configuration.drawing != .kept, before.isForeground != standing.isForeground else { return }
    forEachRegion { region, view in
      if updateDrawing(region, view, of: record) != false || configuration.drawing != .lazy { return }
      var seen = view
      guard opp_purge_look(region, &seen), isDrawing(seen, of: record) else { return }
      // Where it is in use, or cannot be given, it stays volatile.
      _ = opp_purge_take(region, &seen, .OPP_PURGE_LAZY)
    }
  }

  private func isDrawing(_ view: opp_purge_view, of record: AppMemoryRecord) -> Bool {
    view.owner == record.number && view.group == drawingGroup
  }

  /// Makes a region of an app's drawing memory volatile or not, as the app stands when all who say where it
  /// stands are done. Returns whether it is in front; `nil` where the region is none of its drawing memory.
  @discardableResult
  func updateDrawing(_ region: OpaquePointer, _ view: opp_purge_view, of record: AppMemoryRecord) -> Bool? {
    var seen = view
    while isDrawing(seen, of: record) {
      let isForeground = record.currentStanding.isForeground
      // It may be closed meanwhile, and its place another app's.
      if opp_purge_set_volatile_if(region, &seen, !isForeground) {
        // [drawing] releasing: two read-modify-writes of the standing come one after the other. If that of
        // setStanding() is the later, it sees the region as it was left here, and sets it by the new
        // standing; if not, the new standing is found here. It writes what is there, since a load alone may
        // be early.
        let standing =
          AppStanding(rawValue: record.standing.bitwiseOr(0, ordering: .releasing).newValue) ?? .gone
        if standing.isForeground == isForeground { return isForeground }
      }
      guard opp_purge_look(region, &seen) else { return nil }
    }
    return nil
  }

  // MARK: Ledgers

  func forEachRegion(_ body: (OpaquePointer, opp_purge_view) -> Void) {
    var view = opp_purge_view()
    for place in 0..<opp_purge_set_places(set) {
      let region = opp_purge_set_at(set, place)
      if opp_purge_look(region, &view) { body(region, view) }
    }
  }

  /// All apps' ledgers, by number, from one walk.
  func ledgers() -> [UInt32: (record: AppMemoryRecord, ledger: MemoryLedger)] {
    var all: [UInt32: (record: AppMemoryRecord, ledger: MemoryLedger)] = [:]
    for record in records() { all[record.number] = (record, record.blocks) }
    forEachRegion { _, view in all[view.owner]?.ledger.add(view) }
    return all
  }

  func ledger(of record: AppMemoryRecord) -> MemoryLedger {
    var ledger = record.blocks
    forEachRegion { _, view in if view.owner == record.number { ledger.add(view) } }
    return ledger
  }

  func total() -> MemoryLedger {
    var sum = MemoryLedger()
    for record in records() { sum += record.blocks }
    forEachRegion { _, view in sum.add(view) }
    return sum
  }

  // MARK: Room

  /// How much there is now, and how much is in use.
  func reading(of ledger: MemoryLedger) -> MemoryReading? { readings(of: ledger).shortest }

  /// The same of each limit.
  func readings(of ledger: MemoryLedger) -> [MemoryReading] {
    switch configuration.limit {
    case .budget(let bytes): [MemoryReading(capacity: bytes, inUse: ledger.inUse)]
    case .machine: MachineMemory.system.readings()
    }
  }

  /// Makes room for bytes that are about to be handed out.
  func makeRoom(for bytes: Int) {
    guard bytes > 0 else { return }
    if configuration.limit == .machine {
      makeRoomOfMachine(for: UInt64(bytes))
    } else if mayBeCritical(UInt64(bytes)) {
      relieve(needing: UInt64(bytes))
    }
  }

  /// Handed out, so many bytes more.
  func add(_ bytes: UInt64) { if use.add(bytes) { ring() } }

  func subtract(_ bytes: UInt64) { use.subtract(bytes) }

  /// What was taken is about to be filled again: handed out before, it needs room once more.
  func refill(_ bytes: UInt64) {
    if configuration.limit == .machine { makeRoomOfMachine(for: bytes, handedOut: bytes) }
    if use.grow(bytes) { ring() }
    // As in makeRoom, though nothing is to be added: who fills it has it pinned by now.
    if mayBeCritical(0) { relieve() }
  }

  /// Whether a budget's critical point may be reached with so many bytes more. The walk over the regions,
  /// which knows better, is for when it may matter.
  private func mayBeCritical(_ bytes: UInt64) -> Bool {
    guard case .budget(let budget) = configuration.limit else { return false }
    return use.total.saturatingAdd(bytes) >= configuration.gauge.critical.bytes(of: budget)
      && use.isWalkDue(with: bytes)
  }
}
