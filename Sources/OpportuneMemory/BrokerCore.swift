internal import COpportune
import Glibc
import Synchronization

/// What the broker and the memory of its apps share.
///
/// Nothing here waits, so that whoever needs memory is never held up by who looks after it: regions are in a lock-free set,
/// apps in a list that only grows.
final class BrokerCore: @unchecked Sendable {
  let configuration: MemoryConfiguration
  /// Thread-safe.
  let set: OpaquePointer
  let files = CleanPages()
  private let apps = GrowingList<AppRecord>()
  /// Relaxed: each number is given once, in whatever order.
  private let numbers = Atomic<UInt32>(0)
  private let clock: @Sendable () -> UInt64
  private let remove: @Sendable (Removal) -> Void
  /// An upper bound of what is in use: all that is handed out, taken or not. Relaxed: a sum, which publishes nothing.
  let handedOut = Atomic<UInt64>(0)
  /// Rung when the monitor, if there is one, should look.
  let bell: Int32
  /// Set once, by the first listener, and ordered by the fences of ``add(_:)`` and of the monitor's start.
  let isWatched = Atomic<Bool>(false)
  // Counts: relaxed.
  let purgedBytes = Atomic<UInt64>(0)
  let purges = Atomic<UInt64>(0)

  init(
    _ configuration: MemoryConfiguration, clock: @escaping @Sendable () -> UInt64,
    remove: @escaping @Sendable (Removal) -> Void
  ) throws(MemoryError) {
    guard let set = opp_purge_set_create() else { throw .refused("no broker of memory", ENOMEM) }
    bell = opp_watch_open()
    guard bell >= 0 else {
      opp_purge_set_destroy(set)
      throw .refused("no broker of memory", -bell)
    }
    self.configuration = configuration
    self.set = set
    self.clock = clock
    self.remove = remove
  }

  deinit {
    opp_purge_set_destroy(set)
    opp_watch_close(bell)
  }

  func ring() { opp_watch_ring(bell) }

  // MARK: Apps

  func add(_ name: String, _ standing: AppStanding) -> AppRecord {
    let number = numbers.add(1, ordering: .relaxed).oldValue
    let record = AppRecord(number: number, name: name, standing: standing, now: clock())
    apps.add(record)
    return record
  }

  /// Newest first.
  func records() -> [AppRecord] {
    var list: [AppRecord] = []
    _ = apps.first { record in
      list.append(record)
      return false
    }
    return list
  }

  func setStanding(_ standing: AppStanding, of record: AppRecord) {
    let before = record.currentStanding
    if before >= .inactive || standing >= .inactive { record.used.store(clock(), ordering: .relaxed) }
    record.standing.store(standing.rawValue, ordering: .relaxed)
    record.isLeaving.store(false, ordering: .relaxed)
    record.isSettled.store(false, ordering: .relaxed)
    guard configuration.drawing != .kept, before.isForeground != standing.isForeground else { return }
    forEachRegion { region, view in
      var seen = view
      func isDrawing() -> Bool { seen.owner == record.number && seen.group == drawingGroup }
      // It may be closed meanwhile, and its place another app's.
      repeat {
        guard isDrawing() else { return }
        if opp_purge_set_volatile_if(region, &seen, !standing.isForeground) { break }
      } while opp_purge_look(region, &seen)
      guard !standing.isForeground, configuration.drawing == .lazy else { return }
      guard opp_purge_look(region, &seen), isDrawing() else { return }
      // Where it is in use, or cannot be given, it stays volatile.
      _ = opp_purge_take(region, &seen, .OPP_PURGE_LAZY)
    }
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
  func ledgers() -> [UInt32: (record: AppRecord, ledger: MemoryLedger)] {
    var all: [UInt32: (record: AppRecord, ledger: MemoryLedger)] = [:]
    for record in records() { all[record.number] = (record, record.blocks) }
    forEachRegion { _, view in all[view.owner]?.ledger.add(view) }
    return all
  }

  func ledger(of record: AppRecord) -> MemoryLedger {
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

  // MARK: Taking

  struct Victim {
    let region: OpaquePointer
    let view: opp_purge_view
    let key: PurgeOrder.Candidate
  }

  /// Takes volatile regions in order until `wanted` bytes are given back, or none is left.
  func purge(_ wanted: UInt64, _ mode: PurgeMode) -> UInt64 {
    var standings: [UInt32: AppStanding] = [:]
    for record in records() { standings[record.number] = record.currentStanding }
    var victims: [Victim] = []
    forEachRegion { region, view in
      guard view.is_volatile, view.pins == 0, !view.is_purged, !view.is_purging,
        let standing = standings[view.owner], PurgeOrder.mayTake(from: standing)
      else { return }
      let key = PurgeOrder.Candidate(standing: standing, group: view.group, born: view.born, used: view.used_ns)
      victims.append(Victim(region: region, view: view, key: key))
    }
    victims.sort { configuration.order.takes($0.key, before: $1.key) }
    var given: UInt64 = 0
    for victim in victims {
      guard given < wanted else { break }
      var seen = victim.view
      // What was pinned meanwhile is passed over, and so is what the kernel does not take.
      let bytes = opp_purge_take(victim.region, &seen, mode.raw)
      guard bytes > 0 else { continue }
      given += UInt64(bytes)
      purges.add(1, ordering: .relaxed)
    }
    purgedBytes.add(given, ordering: .relaxed)
    return given
  }

  /// Takes the regions of one app that are not in use. Returns the bytes given back.
  func revoke(of record: AppRecord, _ isWanted: (opp_purge_view) -> Bool) -> UInt64 {
    var given: UInt64 = 0
    forEachRegion { region, view in
      guard view.owner == record.number, isWanted(view) else { return }
      var seen = view
      given += UInt64(max(0, opp_purge_revoke(region, &seen)))
    }
    return given
  }

  /// How much there is now, and how much is in use.
  func reading(of ledger: MemoryLedger) -> MemoryReading? {
    switch configuration.limit {
    case .budget(let bytes): MemoryReading(capacity: bytes, inUse: ledger.inUse)
    case .machine: MachineMemory.system.reading()
    }
  }

  /// Makes room for bytes that are about to be handed out, where there is a budget. The machine's own memory is looked at
  /// by the monitor: reading it takes longer than a region does to make.
  func makeRoom(for bytes: Int) {
    guard case .budget(let budget) = configuration.limit, bytes > 0 else { return }
    // What is purged is counted too: the walk over the regions, which knows better, is for when it may matter.
    let bound = handedOut.load(ordering: .relaxed).addingReportingOverflow(UInt64(bytes)).partialValue
    if bound >= configuration.gauge.critical.bytes(of: budget) { relieve(needing: UInt64(bytes)) }
  }

  /// Handed out, so many bytes more.
  func add(_ bytes: UInt64) {
    let sum = handedOut.add(bytes, ordering: .relaxed).newValue
    // Pairs with the fence of PressureMonitor.levels(): either this thread finds that somebody watches, and rings, or the
    // first look of who watches finds what was handed out.
    atomicMemoryFence(ordering: .sequentiallyConsistent)
    guard case .budget(let budget) = configuration.limit, isWatched.load(ordering: .relaxed) else { return }
    if sum >= configuration.gauge.warning.bytes(of: budget) { ring() }
  }

  /// What was taken is being filled again: handed out before, it counts against a budget once more.
  func refill() {
    add(0)
    guard case .budget(let budget) = configuration.limit else { return }
    // As in makeRoom, though nothing is to be added: who fills it has it pinned by now.
    if handedOut.load(ordering: .relaxed) >= configuration.gauge.critical.bytes(of: budget) { relieve() }
  }

  func subtract(_ bytes: UInt64) { handedOut.subtract(bytes, ordering: .relaxed) }

  /// Takes and removes as much as is over the critical point with `bytes` more in use, in steps, each as far as needed.
  /// (R-MEM-01)
  @discardableResult
  func relieve(_ gauge: PressureGauge? = nil, needing bytes: UInt64 = 0) -> Relief {
    let gauge = gauge ?? configuration.gauge
    var relief = Relief()
    guard var reading = self.reading(of: total()) else { return relief }
    reading.inUse = reading.inUse.addingReportingOverflow(bytes).partialValue
    var excess = gauge.excess(reading)
    guard excess > 0 else { return relief }
    relief.purged = purge(excess, configuration.mode)
    guard relief.purged < excess else { return relief }
    excess -= relief.purged
    reading.inUse -= min(relief.purged, reading.inUse)
    if let left = dropClean(gauge, needing: bytes) {
      reading = left
      excess = gauge.excess(left)
    }
    // What is on its way out comes back by itself: nobody else is removed for it.
    let leaving = leavingBytes()
    excess -= min(leaving, excess)
    reading.inUse -= min(leaving, reading.inUse)
    guard excess > 0 else { return relief }
    let now = clock()
    var candidates = self.candidates(now)
    while excess > 0, let removal = configuration.removal.choose(candidates, excess: excess, reading: reading),
      let index = candidates.firstIndex(where: { $0.app == removal.app })
    {
      let gone = candidates.remove(at: index).footprint
      ask(removal, &relief)
      excess -= min(gone, excess)
      reading.inUse -= min(gone, reading.inUse)
    }
    relief.missing = excess
    return relief
  }

  /// Drops the clean pages of apps by their standing, until that is enough. A budget does not count them, but the machine and
  /// a cgroup do while they are in use. The reading after it; `nil` where nothing was dropped.
  private func dropClean(_ gauge: PressureGauge, needing bytes: UInt64) -> MemoryReading? {
    guard case .machine = configuration.limit else { return nil }
    var left: MemoryReading?
    for standing in AppStanding.allCases where PurgeOrder.mayTake(from: standing) {
      guard files.drop({ $0.currentStanding == standing }), var reading = reading(of: MemoryLedger()) else { continue }
      reading.inUse = reading.inUse.addingReportingOverflow(bytes).partialValue
      left = reading
      if gauge.excess(reading) == 0 { break }
    }
    return left
  }

  func removeOverdue() -> [Removal] {
    var relief = Relief()
    for removal in configuration.removal.overdue(candidates(clock())) { ask(removal, &relief) }
    return relief.removals
  }

  private func ask(_ removal: Removal, _ relief: inout Relief) {
    guard let record = records().first(where: { $0.number == removal.app }),
      // One asks, whoever else has come to the same conclusion. relaxed: the exchange alone tells who, and what the
      // removal says was read before.
      record.isLeaving.compareExchange(expected: false, desired: true, ordering: .relaxed).exchanged
    else { return }
    relief.removals.append(removal)
    remove(removal)
  }

  /// Of apps that were asked to go, or are gone and whose memory is being written or closed. What they keep after that counts
  /// as anybody's: nobody would be removed any more otherwise.
  private func leavingBytes() -> UInt64 {
    ledgers().values.reduce(0) { sum, app in
      let isGoing = app.record.isLeaving.load(ordering: .relaxed) || app.record.currentStanding == .gone
      return isGoing && !app.record.isSettled.load(ordering: .relaxed) ? sum + app.ledger.inUse : sum
    }
  }

  private func candidates(_ now: UInt64) -> [RemovalCandidate] {
    ledgers().values
      .filter { !$0.record.isLeaving.load(ordering: .relaxed) }
      .map { record, ledger in
        let used = record.used.load(ordering: .relaxed)
        return RemovalCandidate(
          app: record.number, name: record.name, standing: record.currentStanding, footprint: ledger.inUse,
          idle: now > used ? now - used : 0)
      }
  }
}
