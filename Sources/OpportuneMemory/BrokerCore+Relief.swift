internal import COpportune
internal import OpportuneBase
import Synchronization

/// What all apps hold, and what of it may be taken, from one walk.
///
/// Each app and each region is read once. So, whatever other threads take and remove meanwhile, an entry is
/// counted as in use and as removable, or as neither.
struct Survey {
  struct App {
    let record: AppMemoryRecord
    let standing: AppStanding
    /// Read before the standing. If the app rises in between, this removal is skipped without need; the
    /// opposite error cannot occur.
    let rises: UInt64
    /// The app was asked to leave.
    let isLeaving: Bool
    /// The app was asked to leave or has ended, and its memory is being written or closed. What it keeps
    /// after that counts like any other app's; otherwise no other app would ever be removed.
    let isOnItsWay: Bool
    var ledger: MemoryLedger
  }
  struct Victim {
    let region: OpaquePointer
    let view: opp_purge_view
    let key: PurgeOrder.Candidate
  }

  var apps: [UInt32: App] = [:]
  var total = MemoryLedger()
  var victims: [Victim] = []

  /// Subtracts a victim from what is in use.
  mutating func drop(_ victim: Victim, _ mode: PurgeMode) {
    apps[victim.view.owner]?.ledger.volatile -= victim.view.bytes
    total.volatile -= victim.view.bytes
    if mode == .lazy { total.lazy += victim.view.bytes }
  }

  /// Bytes that will be released without further removals.
  var leaving: UInt64 { apps.values.reduce(0) { $1.isOnItsWay ? $0 + $1.ledger.inUse : $0 } }

  func candidates(_ now: UInt64) -> [RemovalCandidate] {
    apps.values.filter { !$0.isLeaving }.map { app in
      let used = app.record.used.load(ordering: .relaxed)
      return RemovalCandidate(
        app: app.record.number, name: app.record.name, standing: app.standing, footprint: app.ledger.inUse,
        idle: now > used ? now - used : 0, written: app.ledger.inUse - app.ledger.volatile,
        wasInFront: app.record.wasInFront.load(ordering: .relaxed))
    }
  }
}

/// Taking memory back. Any number of threads may do so at the same time; none waits for another.
extension BrokerCore {
  func survey() -> Survey {
    walks.add(1, ordering: .relaxed)
    var survey = Survey()
    for record in records() {
      // Acquiring: pairs with setStanding(). The standing is read after it.
      let rises = record.rises.load(ordering: .acquiring)
      let standing = record.currentStanding
      let isLeaving = record.isLeaving.load(ordering: .relaxed)
      let isOnItsWay = (isLeaving || standing == .gone) && !record.hasReturnedAll.load(ordering: .relaxed)
      let blocks = record.blocks
      survey.apps[record.number] = Survey.App(
        record: record, standing: standing, rises: rises, isLeaving: isLeaving, isOnItsWay: isOnItsWay,
        ledger: blocks)
      survey.total += blocks
    }
    forEachRegion { region, view in
      survey.total.add(view)
      survey.apps[view.owner]?.ledger.add(view)
      guard view.is_volatile, view.pins == 0, !view.is_purged, !view.is_purging,
        let standing = survey.apps[view.owner]?.standing, PurgeOrder.mayTake(from: standing)
      else { return }
      let key = PurgeOrder.Candidate(
        standing: standing, group: view.group, born: view.born, used: view.used_ns)
      survey.victims.append(Survey.Victim(region: region, view: view, key: key))
    }
    survey.victims.sort { configuration.order.takes($0.key, before: $1.key) }
    return survey
  }

  /// Takes volatile regions in order until `wanted` bytes are released, or none is left.
  func purge(_ wanted: UInt64, _ mode: PurgeMode) -> UInt64 {
    var given: UInt64 = 0
    for victim in survey().victims {
      guard given < wanted else { break }
      given += take(victim, mode)
    }
    return given
  }

  /// Takes one victim. Skips a region that was pinned meanwhile, or that the kernel does not accept.
  private func take(_ victim: Survey.Victim, _ mode: PurgeMode) -> UInt64 {
    var seen = victim.view
    let bytes = UInt64(max(0, opp_purge_take(victim.region, &seen, mode.raw)))
    guard bytes > 0 else { return 0 }
    purges.add(1, ordering: .relaxed)
    purgedBytes.add(bytes, ordering: .relaxed)
    return bytes
  }

  /// Takes the regions of one app that are not in use. Returns the bytes released.
  func revoke(of record: AppMemoryRecord, _ isWanted: (opp_purge_view) -> Bool) -> UInt64 {
    var given: UInt64 = 0
    forEachRegion { region, view in
      guard view.owner == record.number, isWanted(view) else { return }
      var seen = view
      given += UInt64(max(0, opp_purge_revoke(region, &seen)))
    }
    return given
  }

  /// Takes and removes memory until use with `bytes` more is below the critical point. It proceeds in steps
  /// and takes no step that is not needed. (R-MEM-01)
  @discardableResult
  func relieve(_ gauge: PressureGauge? = nil, needing bytes: UInt64 = 0) -> Relief {
    let before = use.readGrowth()
    let (survey, relief) = use.wanting(bytes) { needed in
      var survey = self.survey()
      let relief = relieve(&survey, gauge ?? configuration.gauge, needed)
      return (survey, relief)
    }
    if case .budget(let budget) = configuration.limit {
      // Lazily released memory may count as in use again without notice. So the next walk is due after a
      // 256th of the budget at the latest, or when the critical point may be reached.
      let held = survey.total.inUse + survey.total.lazy
      let critical = configuration.gauge.critical.bytes(of: budget)
      use.setRoom(max(critical - min(held, critical), budget / 256), since: before)
    }
    return relief
  }

  private func relieve(_ survey: inout Survey, _ gauge: PressureGauge, _ bytes: UInt64) -> Relief {
    var relief = Relief()
    // The machine is read after the walk. Memory that another thread takes in between counts twice; the next
    // look finds what is missing.
    guard var reading = self.reading(of: survey.total) else { return relief }
    reading.inUse = reading.inUse.saturatingAdd(bytes)
    var excess = gauge.excess(reading)
    // Lazily released memory does not count as in use.
    for victim in survey.victims where !victim.view.is_lazy {
      guard excess > 0 else { return relief }
      let given = take(victim, configuration.mode)
      // Other threads that relieve pressure have the same list. A victim that one of them has taken counts
      // here too, and is not replaced by another.
      guard given > 0 || isGone(victim) else { continue }
      relief.purged += given
      survey.drop(victim, configuration.mode)
      excess -= min(victim.view.bytes, excess)
      reading.inUse -= min(victim.view.bytes, reading.inUse)
    }
    guard excess > 0 else { return relief }
    if let left = dropClean(gauge, needing: bytes) {
      reading = left
      excess = gauge.excess(left)
    }
    // Apps that are leaving count as gone: no other app is removed in place of their memory. The critical
    // point may not be reached without it.
    reading.inUse -= min(survey.leaving, reading.inUse)
    excess = gauge.excess(reading)
    var candidates = survey.candidates(clock())
    while excess > 0,
      let removal = configuration.removal.choose(candidates, excess: excess, reading: reading),
      let index = candidates.firstIndex(where: { $0.app == removal.app })
    {
      // An app in the foreground is removed only below the critical point itself, never just to restore the
      // margin.
      if candidates[index].standing.isForeground, !configuration.gauge.isCritical(reading) { break }
      let gone = candidates.remove(at: index).footprint
      ask(removal, survey, &relief)
      excess -= min(gone, excess)
      reading.inUse -= min(gone, reading.inUse)
    }
    relief.missing = excess
    return relief
  }

  /// Takes volatile regions before new memory is touched. Later is too late: where there is no room, the
  /// kernel kills the process that touches the memory. No app is removed here, since the memory may never be
  /// touched; the monitor does that.
  ///
  /// - Parameter counted: how many of the bytes were handed out before.
  func makeRoomOfMachine(for bytes: UInt64, handedOut counted: UInt64 = 0) {
    // The machine is read once for each 256th of the smallest limit. It is not read more often than a
    // fraction of the time that touching so much memory takes.
    guard use.isWalkDue(with: bytes) else { return }
    let before = use.readGrowth()
    let readings = MachineMemory.system.readings()
    guard let capacity = readings.map(\.capacity).min() else { return }
    let interval = max(1, capacity / 256, min(2 << 20, capacity / 32))
    use.setRoom(bytes.saturatingAdd(interval), since: before)
    use.wanting(bytes) { makeRoomOfMachine(readings, for: $0, handedOut: counted) }
  }

  /// - Parameter needed: the bytes of all threads that make room now.
  private func makeRoomOfMachine(_ readings: [MemoryReading], for needed: UInt64, handedOut counted: UInt64) {
    let touched = ProcessMemory.anonymous() ?? .max
    func excess(handedOut: UInt64) -> UInt64 {
      let others = handedOut - min(counted, handedOut)
      let untouched = others - min(touched, others)
      return readings.reduce(0) { most, reading in
        var full = reading
        full.inUse = reading.inUse.saturatingAdd(needed).saturatingAdd(untouched)
        return max(most, configuration.gauge.excess(full))
      }
    }
    // An upper bound, which needs no walk.
    guard excess(handedOut: use.total) > 0 else { return }
    let survey = survey()
    var left = excess(handedOut: survey.total.inUse.saturatingAdd(survey.total.lazy))
    for victim in survey.victims where !victim.view.is_lazy {
      guard left > 0 else { return }
      guard take(victim, configuration.mode) > 0 || isGone(victim) else { continue }
      left -= min(victim.view.bytes, left)
    }
  }

  /// Whether another thread has taken or closed the victim since the walk.
  private func isGone(_ victim: Survey.Victim) -> Bool {
    var now = opp_purge_view()
    return !opp_purge_look(victim.region, &now) || now.generation != victim.view.generation || now.is_lazy
  }

  /// Drops the clean pages of apps in the order of their standing, until that suffices. A budget does not
  /// count clean pages, but the machine and a cgroup do while they are in use. Returns the reading
  /// afterwards; `nil` where nothing was dropped.
  private func dropClean(_ gauge: PressureGauge, needing bytes: UInt64) -> MemoryReading? {
    guard case .machine = configuration.limit else { return nil }
    var left: MemoryReading?
    for standing in AppStanding.allCases where PurgeOrder.mayTake(from: standing) {
      guard files.drop({ $0.currentStanding == standing }), var reading = reading(of: MemoryLedger()) else {
        continue
      }
      reading.inUse = reading.inUse.saturatingAdd(bytes)
      left = reading
      if gauge.excess(reading) == 0 { break }
    }
    return left
  }

  func removeOverdue() -> [Removal] {
    var relief = Relief()
    let survey = survey()
    for removal in configuration.removal.overdue(survey.candidates(clock())) { ask(removal, survey, &relief) }
    return relief.removals
  }

  private func ask(_ removal: Removal, _ survey: Survey, _ relief: inout Relief) {
    guard let app = survey.apps[removal.app], case let record = app.record, record.currentStanding != .gone,
      // One thread asks, even if several have chosen this app. relaxed: the exchange alone decides which, and
      // the removal's text was read before.
      record.isLeaving.compareExchange(expected: false, desired: true, ordering: .relaxed).exchanged
    else { return }
    var removal = removal
    removal.rises = app.rises
    relief.removals.append(removal)
    remove(removal)
  }
}
