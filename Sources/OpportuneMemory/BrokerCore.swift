internal import COpportune
import Glibc
internal import OpportuneBase
import Synchronization

/// The shared state of the broker and of its apps' memory.
///
/// Nothing here blocks, so a thread that needs memory is never delayed by one that relieves pressure. Regions
/// are in a lock-free set, apps in a list that only grows.
final class BrokerCore: @unchecked Sendable {
  let configuration: MemoryConfiguration
  /// The set of regions; thread-safe.
  let set: OpaquePointer
  let files = CleanPages()
  private let apps = LinkedStack<AppMemoryRecord>()
  /// Relaxed: each number is unique, whatever the order.
  private let numbers = Atomic<UInt32>(0)
  let clock: @Sendable () -> UInt64
  let remove: @Sendable (Removal) -> Void
  let use: MemoryUse
  /// Written to wake the monitor, if there is one.
  let notifier: Int32
  // Counters: relaxed.
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

  func notify() { opp_watch_notify(notifier) }

  // MARK: Apps

  func add(_ name: String, _ standing: AppStanding) -> AppMemoryRecord {
    let number = numbers.add(1, ordering: .relaxed).oldValue
    let record = AppMemoryRecord(number: number, name: name, standing: standing, now: clock())
    apps.push(record)
    return record
  }

  /// All apps, newest first.
  func records() -> [AppMemoryRecord] {
    var list: [AppMemoryRecord] = []
    apps.visit { list.append($0) }
    return list
  }

  func setStanding(_ standing: AppStanding, of record: AppMemoryRecord) {
    // [drawing] acquiring: pairs with updateDrawing().
    let before =
      AppStanding(rawValue: record.standing.exchange(standing.rawValue, ordering: .acquiring)) ?? .gone
    // Releasing: a thread that reads this count (acquiring, in survey) also sees the standing.
    if standing > before { record.rises.add(1, ordering: .releasing) }
    if before.isForeground || standing.isForeground {
      record.used.store(clock(), ordering: .relaxed)
      record.wasInFront.store(true, ordering: .relaxed)
    }
    record.isLeaving.store(false, ordering: .relaxed)
    // Who is gone may be told so again after it has returned all: it stays away, and nothing more comes.
    if standing != .gone { record.hasReturnedAll.store(false, ordering: .relaxed) }
    guard configuration.drawing != .kept, before.isForeground != standing.isForeground else { return }
    forEachRegion { region, view in
      if updateDrawing(region, view, of: record) != false || configuration.drawing != .lazy { return }
      var seen = view
      guard opp_purge_look(region, &seen), isDrawing(seen, of: record) else { return }
      // A region that is in use, or that the kernel does not accept, stays volatile.
      _ = opp_purge_take(region, &seen, .OPP_PURGE_LAZY)
    }
  }

  private func isDrawing(_ view: opp_purge_view, of record: AppMemoryRecord) -> Bool {
    view.owner == record.number && view.group == drawingGroup
  }

  /// Makes a region of drawing memory volatile or not, by the app's standing after all concurrent changes.
  /// Returns whether the app is in the foreground; `nil` where the region is not drawing memory of this app.
  @discardableResult
  func updateDrawing(_ region: OpaquePointer, _ view: opp_purge_view, of record: AppMemoryRecord) -> Bool? {
    var seen = view
    while isDrawing(seen, of: record) {
      let isForeground = record.currentStanding.isForeground
      // The region may be closed meanwhile, and its place reused by another app.
      if opp_purge_set_volatile_if(region, &seen, !isForeground) {
        // [drawing] releasing: pairs with setStanding(). Both sides are read-modify-writes of the standing,
        // so one comes first. If setStanding() is later, it sees the region as set here, and sets it by the
        // new standing. Otherwise this operation returns the new standing. It rewrites the current value,
        // since a plain load might read an earlier one.
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
    for index in 0..<opp_purge_set_size(set) {
      let region = opp_purge_set_at(set, index)
      if opp_purge_look(region, &view) { body(region, view) }
    }
  }

  /// All apps' ledgers by number, from one walk.
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

  // MARK: Making room

  /// How much memory there is and how much is in use, of the limit that is closest.
  func reading(of ledger: MemoryLedger) -> MemoryReading? { readings(of: ledger).shortest }

  /// The readings of all limits.
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

  /// Counts bytes that were handed out.
  func add(_ bytes: UInt64) { if use.add(bytes) { notify() } }

  func subtract(_ bytes: UInt64) { use.subtract(bytes) }

  /// Makes room for memory that was taken and is about to be filled again: it counts as new use.
  func refill(_ bytes: UInt64) {
    if configuration.limit == .machine { makeRoomOfMachine(for: bytes, handedOut: bytes) }
    if use.grow(bytes) { notify() }
    // Like makeRoom, but nothing is added: the filling thread has the region pinned by now.
    if mayBeCritical(0) { relieve() }
  }

  /// Whether a budget's critical point may be reached with this many bytes more. Only then is the exact walk
  /// over the regions made.
  private func mayBeCritical(_ bytes: UInt64) -> Bool {
    guard case .budget(let budget) = configuration.limit else { return false }
    return use.total.saturatingAdd(bytes) >= configuration.gauge.critical.bytes(of: budget)
      && use.isWalkDue(with: bytes)
  }
}
