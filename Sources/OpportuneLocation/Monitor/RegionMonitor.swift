import HeapModule
import OpportuneApps
internal import OpportuneBase

/// Watches fences: fixes and time go in, crossings come out. (R-GEO-01, R-GEO-05, R-GEO-08)
///
/// It is pure: time comes with each call. Its cost depends on the fences that are near or that the device is
/// in, not on how many there are. Not thread-safe: a value.
///
/// Invariants: a known fence that is no candidate is outside, and the last fix was clear of it. The borders
/// of all known fences are farther than `safeRadius.metres` from `safeRadius.about`, unless that is negative.
public struct RegionMonitor: Sendable {
  /// What became of a fix.
  package enum Verdict: String, Sendable, Hashable, CaseIterable, Codable {
    case used
    /// No device can be that fast, and too few fixes agree with this one.
    case outlier
    /// Not later than the one before.
    case old
  }

  package struct Statistics: Sendable, Hashable {
    package fileprivate(set) var fixes = 0
    package fileprivate(set) var outliers = 0
    package fileprivate(set) var old = 0
    /// Fences looked at, over all fixes.
    package fileprivate(set) var judged = 0
  }

  /// A fence that the next fix must be held against.
  private struct Candidate: Sendable {
    var slot: Int32
    /// Log odds of being inside, as of the last fix.
    var odds: Double
    /// When it was entered.
    var since = Moment.distantFuture
    /// Whether the last fix was clear of the border.
    var isClear = false
    /// Whether the odds are sure of the side that it is on.
    var isSure = false
  }

  private struct Deadline: Sendable, Comparable {
    var moment: Moment
    var fence: FenceID
    /// Of a dwell: when the stay began; of an expiry: `nil`.
    var since: Moment?

    static func < (left: Deadline, right: Deadline) -> Bool { left.moment < right.moment }
  }

  /// What it was made with.
  public let policy: MonitorPolicy
  /// The log odds at which a side is believed.
  private let wanted: Double
  /// The time of the last event.
  public private(set) var now = Moment.zero
  package private(set) var statistics = Statistics()
  /// What became of the last one.
  package private(set) var lastVerdict: Verdict?
  private var fences = FenceTable()
  private(set) var track = FixTrack()
  private var candidates: [Candidate] = []
  private var neighbourhood = Neighbourhood()
  /// Added since the last fix; some may be gone again, or be there twice.
  private var fresh: [Int32] = []
  private var safeRadius = (about: SIMD3<Double>.zero, metres: -1.0)
  private var deadlines = Heap<Deadline>()
  private var crossings: [Crossing] = []

  /// The number of fences.
  public var count: Int { fences.count }
  /// The last fix that was used.
  public var lastFix: Fix? { track.fix }

  /// - Throws: ``LocationError``: `outOfRange` for a policy out of its ranges.
  public init(policy: MonitorPolicy = .standard) throws(LocationError) {
    try policy.validate()
    self.policy = policy
    wanted = Evidence.logOdds(policy.confidence)
  }

  // MARK: Fences

  /// Watches a fence from now on. The next fix finds on which side of it the device is. (R-GEO-08)
  ///
  /// - Throws: ``LocationError``: `tooManyFences`.
  public mutating func add(_ fence: Fence) throws(LocationError) -> FenceID {
    guard count < policy.maximumFences else {
      throw LocationError(.tooManyFences(limit: policy.maximumFences))
    }
    let item = fences.insert(fence)
    neighbourhood.forget()
    fresh.append(item)
    let id = fences.id(of: item)
    if let expiry = fence.expiry {
      deadlines.insert(Deadline(moment: max(expiry, now), fence: id, since: nil))
    }
    return id
  }

  /// - Throws: ``LocationError``: `unknownFence`.
  public mutating func remove(_ id: FenceID) throws(LocationError) {
    guard let item = fences.item(of: id) else { throw LocationError(.unknownFence(id)) }
    neighbourhood.forget()
    if fences[item].candidate >= 0 { forget(at: Int(fences[item].candidate)) }
    fences.remove(item)
  }

  /// What is known of a fence; `nil` where it is not watched.
  public func state(of id: FenceID) -> FenceState? { fences.item(of: id).map { fences[$0].state } }

  /// The bytes of its tables, what regions other than plain circles hold apart.
  package var memory: Int {
    fences.memory + neighbourhood.memory + candidates.capacity * MemoryLayout<Candidate>.stride
      + fresh.capacity * MemoryLayout<Int32>.stride
  }

  private mutating func attend(to item: Int32, odds: Double) {
    fences[item].candidate = Int32(candidates.count)
    candidates.append(Candidate(slot: item, odds: odds))
  }

  private mutating func forget(at place: Int) {
    fences[candidates[place].slot].candidate = -1
    let last = candidates.removeLast()
    guard place < candidates.count else { return }
    candidates[place] = last
    fences[last.slot].candidate = Int32(place)
  }

  // MARK: Fixes

  /// Holds the fences against a fix: first what was due before its time, then the fix.
  ///
  /// - Returns: the crossings, in the order in which they are known.
  public mutating func update(_ fix: Fix) -> [Crossing] {
    guard fix.time >= now, track.fix.map({ fix.time > $0.time }) ?? true else {
      statistics.old += 1
      lastVerdict = .old
      return []
    }
    pass(until: fix.time, inclusive: false)
    let point = Point3(fix.position)
    let elapsed = track.seconds(to: fix)
    guard track.leads(to: fix, point.vector, policy) else {
      statistics.outliers += 1
      lastVerdict = .outlier
      return takeCrossings()
    }
    statistics.fixes += 1
    lastVerdict = .used
    if fresh.isEmpty { inferPasses(to: fix, point.vector) }
    track.follow(fix, point.vector, policy)
    let deviation = fix.accuracy.standardDeviation
    if fresh.isEmpty {
      // Clear of every border, and on the same side as before.
      let moved = (point.vector - safeRadius.about).length
      if moved + Evidence.clearance * deviation < safeRadius.metres { return takeCrossings() }
    }
    judge(fix, point, elapsed: elapsed)
    safeRadius = (point.vector, -1)
    if candidates.allSatisfy({ $0.isClear }) {
      safeRadius.metres = min(
        neighbourhood.reach(from: point.vector),
        neighbourhood.nearestBorder(from: fix, at: point.vector, below: Neighbourhood.horizon, of: fences))
    }
    return takeCrossings()
  }

  private mutating func judge(_ fix: Fix, _ point: Point3, elapsed: Double) {
    let reach = Evidence.clearance * fix.accuracy.standardDeviation
    neighbourhood.gather(about: point.vector, reach, from: fences)
    for item in neighbourhood.items where fences[item].candidate < 0 {
      let away = point.vector - fences[item].centre
      let within = fences[item].reach + reach
      guard (away * away).sum() <= within * within else { continue }
      attend(to: item, odds: fences[item].state == .unknown ? 0 : -Evidence.limit)
    }
    // A new fence that is far is outside.
    for item in fresh where fences[item].isUsed && fences[item].candidate < 0 {
      decide(item, odds: -Evidence.limit)
    }
    fresh.removeAll(keepingCapacity: true)
    var place = candidates.count - 1
    let share = Evidence.share(after: elapsed, correlation: policy.correlation.inSeconds)
    while place >= 0 {
      judge(at: place, fix, point, elapsed: elapsed, share: share)
      place -= 1
    }
  }

  private mutating func judge(at place: Int, _ fix: Fix, _ point: Point3, elapsed: Double, share: Double) {
    statistics.judged += 1
    let item = candidates[place].slot
    guard let (evidence, border) = Evidence.of(fix, at: point, about: fences[item]) else {
      candidates[place].isClear = false
      candidates[place].isSure = false
      return
    }
    let faded = Evidence.faded(candidates[place].odds, over: elapsed, stay: policy.stay.inSeconds)
    let odds = min(Evidence.limit, max(-Evidence.limit, faded + evidence * share))
    candidates[place].odds = odds
    let isClear = border > Evidence.clearance * fix.accuracy.standardDeviation
    decide(item, odds: odds)
    let agrees = fences[item].state == (evidence > 0 ? .inside : .outside)
    candidates[place].isClear = isClear && agrees
    candidates[place].isSure = agrees && (isClear || abs(odds) >= wanted)
    if isClear, agrees, evidence < 0 { forget(at: place) }
  }

  /// Changes the side of a fence and reports the crossing, if the odds are sure of the other side.
  private mutating func decide(_ item: Int32, odds: Double) {
    let state: FenceState = odds >= wanted ? .inside : odds <= -wanted ? .outside : fences[item].state
    let before = fences[item].state
    guard state != before else { return }
    fences[item].state = state
    let isInitial = before == .unknown
    if state == .inside {
      candidates[Int(fences[item].candidate)].since = now
      startDwell(item)
    }
    if !isInitial || fences[item].detail?.fence.reportsInitialState == true {
      tell(state == .inside ? .enter : .exit, item, odds: odds, isInitial: isInitial)
    }
  }

  /// Tells of circles that the device must have passed through since the last fix, where the policy wants
  /// that.
  private mutating func inferPasses(to fix: Fix, _ point: SIMD3<Double>) {
    let elapsed = track.seconds(to: fix)
    guard let wander = policy.wander, let before = track.fix, elapsed > 0 else { return }
    let passed = Passes.between(
      before, at: track.point, fix, at: point, seconds: elapsed, wander: wander, wanted: wanted,
      through: fences)
    for (item, odds) in passed {
      tell(.enter, item, odds: odds, isInitial: false)
      // The fix decides on which side the device is now.
      tell(.exit, item, odds: -odds, isInitial: false)
    }
  }

  // MARK: Borders

  /// A lower bound of the distance in metres from the last fix to the nearest border of any fence; 2000 km at
  /// most.
  func nearestBorder() -> Double {
    guard let fix = track.fix else { return 0 }
    let reach = min(Neighbourhood.horizon, neighbourhood.reach(from: track.point))
    if reach > 0 {
      let nearest = neighbourhood.nearestBorder(from: fix, at: track.point, below: reach, of: fences)
      if nearest < reach || reach == Neighbourhood.horizon { return nearest }
    }
    return fences.nearestBorder(from: fix, at: track.point, below: Neighbourhood.horizon)
  }

  /// When the next fix is needed: the earliest time at which the device can be at the nearest border, plus
  /// the policy's patience; earlier if the device would leave a circle on its course before. (R-LOC-14)
  ///
  /// - Returns: `nil` without fences, since no fix is needed then; the present time without a first fix.
  /// - Throws: ``LocationError``: `outOfRange` for a policy out of its ranges.
  public func nextSample(_ policy: SamplingPolicy = .standard) throws(LocationError) -> Moment? {
    try policy.validate()
    guard count > 0 else { return nil }
    guard let fix = track.fix, fresh.isEmpty else { return now }
    // The side of a fence is not sure: a fix is needed.
    let isSure = candidates.allSatisfy { $0.isSure }
    return max(
      now, policy.nextSample(after: fix, on: track, free: isSure ? nearestBorder() : 0, among: fences))
  }

  /// Forgets where the device is, while nobody needs it. The next fix is treated as a first one, but the
  /// sides of the fences stay known.
  mutating func forgetPlace() {
    guard track.fix != nil else { return }
    track = FixTrack()
    safeRadius = (.zero, -1)
    neighbourhood.forget()
  }

  // MARK: Time

  /// Advances the time: reports stays that are long enough, and ends fences that expire, until `moment`.
  ///
  /// - Throws: ``LocationError``: `clockWentBack`.
  public mutating func advance(to moment: Moment) throws(LocationError) -> [Crossing] {
    guard moment >= now else { throw LocationError(.clockWentBack) }
    pass(until: moment, inclusive: true)
    return takeCrossings()
  }

  /// When ``advance(to:)`` must be called next, unless a fix comes before; `nil`: never.
  public var nextDeadline: Moment? {
    mutating get {
      while let first = deadlines.min {
        if isCurrent(first) { return first.moment }
        deadlines.removeMin()
      }
      return nil
    }
  }

  private mutating func takeCrossings() -> [Crossing] {
    guard !crossings.isEmpty else { return [] }
    defer { crossings.removeAll(keepingCapacity: true) }
    return crossings
  }

  private mutating func pass(until moment: Moment, inclusive: Bool) {
    while let first = deadlines.min, first.moment < moment || (inclusive && first.moment == moment) {
      deadlines.removeMin()
      guard isCurrent(first), let item = fences.item(of: first.fence) else { continue }
      now = max(now, first.moment)
      if first.since == nil {
        crossings.append(
          Crossing(fence: first.fence, kind: .expired, at: now, confidence: 1, isInitial: false))
        try? remove(first.fence)
      } else {
        let odds = candidates[Int(fences[item].candidate)].odds
        tell(.dwell, item, odds: odds, isInitial: false)
      }
    }
    now = moment
  }

  private func isCurrent(_ deadline: Deadline) -> Bool {
    guard let item = fences.item(of: deadline.fence) else { return false }
    guard let since = deadline.since else { return true }
    let place = Int(fences[item].candidate)
    return place >= 0 && fences[item].state == .inside && candidates[place].since == since
  }

  private mutating func tell(_ kind: Crossing.Kind, _ item: Int32, odds: Double, isInitial: Bool) {
    let inside = Evidence.probability(odds)
    crossings.append(
      Crossing(
        fence: fences.id(of: item), kind: kind, at: now, confidence: kind == .exit ? 1 - inside : inside,
        isInitial: isInitial))
  }

  private mutating func startDwell(_ item: Int32) {
    guard let dwell = fences[item].detail?.fence.dwell else { return }
    deadlines.insert(Deadline(moment: now + dwell, fence: fences.id(of: item), since: now))
  }
}

extension Point3 {
  package var vector: SIMD3<Double> { SIMD3(x, y, z) }
}

extension SIMD3<Double> {
  package var length: Double { (self * self).sum().squareRoot() }
}
