import HeapModule
import OpportuneApps

/// Watches fences: fixes and time go in, crossings come out. (R-GEO-01, R-GEO-05, R-GEO-08)
///
/// It is pure: time comes with each call. Its cost depends on the fences that are near or that the device is
/// in, not on how many there are. Not thread-safe: a value.
///
/// Invariants: a known fence that is no candidate is outside, and the last fix was clear of it. The borders
/// of all known fences are farther than `safeRadius.metres` from `safeRadius.about`, unless that is negative.
/// All fences that come as near to `neighbourhood.about` as its metres are `neighbours`, and nothing else is.
public struct RegionMonitor: Sendable {
  /// What became of a fix.
  package enum Verdict: String, Sendable, Hashable, CaseIterable, Codable {
    case used
    /// No device gets there so fast, and too few fixes agree with it.
    case outlier
    /// Not later than the one before.
    case old
  }

  package struct Statistics: Sendable, Hashable {
    package internal(set) var fixes = 0
    package internal(set) var outliers = 0
    package internal(set) var old = 0
    /// Fences looked at, over all fixes.
    package internal(set) var judged = 0
  }

  /// A fence that the next fix must be held against.
  struct Candidate: Sendable {
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

  struct Deadline: Sendable, Comparable {
    var moment: Moment
    var fence: FenceID
    /// Of a dwell: when the stay began; of an expiry: `nil`.
    var since: Moment?

    static func < (left: Deadline, right: Deadline) -> Bool { left.moment < right.moment }
  }

  /// What it was made with.
  public let policy: MonitorPolicy
  /// The log odds at which a side is believed.
  let wanted: Double
  /// The time of the last event.
  public internal(set) var now = Moment.zero
  package internal(set) var statistics = Statistics()
  /// The number of fences.
  public private(set) var count = 0
  /// The last fix that was used.
  public internal(set) var lastFix: Fix?
  var lastPoint = SIMD3<Double>.zero
  /// What became of the last one.
  package internal(set) var lastVerdict: Verdict?
  var slots: [FenceSlot] = []
  var index = FenceIndex()
  var candidates: [Candidate] = []
  /// Added since the last fix; some may be gone again, or be there twice.
  var fresh: [Int32] = []
  var safeRadius = (about: SIMD3<Double>.zero, metres: -1.0)
  var suspect: (fix: Fix, count: Int)?
  /// Metres a second between the last two fixes used, by the straight way.
  var velocity: SIMD3<Double>?
  /// Seconds between them.
  var lastElapsed: Double?
  /// Metres a second that it may have had at the second, as far as their errors and the policy's acceleration
  /// allow; 0 before.
  var highestSpeed = 0.0
  /// The fences that come as near to `about` as `metres`; none are known where that is negative.
  var neighbours: [Int32] = []
  var neighbourhood = (about: SIMD3<Double>.zero, metres: -1.0)
  /// Of the next neighbourhood, in metres, unless it proves too crowded or too lonely.
  var searchRadius = 1000.0
  private var free: [Int32] = []
  private var deadlines = Heap<Deadline>()
  var crossings: [Crossing] = []

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
    let ball = fence.region.ball
    var isPlain = fence.dwell == nil && fence.expiry == nil && !fence.reportsInitialState
    if case .circle(_, let radius) = fence.region.shape, fence.region.altitude == nil,
      radius <= Point3.longestChord
    {
    } else {
      isPlain = false
    }
    var slot = FenceSlot(
      centre: ball.centre.vector, reach: ball.radius, detail: isPlain ? nil : FenceDetail(fence),
      generation: 0)
    let item: Int32
    if let reused = free.popLast() {
      slot.generation = slots[Int(reused)].generation &+ 1
      slots[Int(reused)] = slot
      item = reused
    } else {
      item = Int32(slots.count)
      slots.append(slot)
    }
    count += 1
    index.insert(item, &slots)
    neighbourhood.metres = -1
    fresh.append(item)
    let id = FenceID(slot: UInt32(item), generation: slot.generation)
    if let expiry = fence.expiry {
      deadlines.insert(Deadline(moment: max(expiry, now), fence: id, since: nil))
    }
    return id
  }

  /// - Throws: ``LocationError``: `unknownFence`.
  public mutating func remove(_ id: FenceID) throws(LocationError) {
    guard let item = item(of: id) else { throw LocationError(.unknownFence(id)) }
    index.remove(item, &slots)
    neighbourhood.metres = -1
    if slots[Int(item)].candidate >= 0 { forget(at: Int(slots[Int(item)].candidate)) }
    slots[Int(item)].isUsed = false
    slots[Int(item)].detail = nil
    free.append(item)
    count -= 1
  }

  /// What is known of a fence; `nil` where it is not watched.
  public func state(of id: FenceID) -> FenceState? { item(of: id).map { slots[Int($0)].state } }

  /// The bytes of its tables, what regions other than plain circles hold apart.
  package var memory: Int {
    slots.capacity * MemoryLayout<FenceSlot>.stride + index.memory
      + candidates.capacity * MemoryLayout<Candidate>.stride
      + (fresh.capacity + free.capacity + neighbours.capacity) * 4
  }

  func item(of id: FenceID) -> Int32? {
    let item = Int(id.slot)
    guard slots.indices.contains(item), slots[item].isUsed, slots[item].generation == id.generation else {
      return nil
    }
    return Int32(item)
  }

  func id(of item: Int32) -> FenceID { FenceID(slot: UInt32(item), generation: slots[Int(item)].generation) }

  mutating func attend(to item: Int32, odds: Double) {
    slots[Int(item)].candidate = Int32(candidates.count)
    candidates.append(Candidate(slot: item, odds: odds))
  }

  mutating func forget(at place: Int) {
    slots[Int(candidates[place].slot)].candidate = -1
    let last = candidates.removeLast()
    guard place < candidates.count else { return }
    candidates[place] = last
    slots[Int(last.slot)].candidate = Int32(place)
  }

  // MARK: Time

  /// Lets time pass: tells of stays that are long enough, and ends what expires, until `moment`.
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

  mutating func takeCrossings() -> [Crossing] {
    guard !crossings.isEmpty else { return [] }
    defer { crossings.removeAll(keepingCapacity: true) }
    return crossings
  }

  mutating func pass(until moment: Moment, inclusive: Bool) {
    while let first = deadlines.min, first.moment < moment || (inclusive && first.moment == moment) {
      deadlines.removeMin()
      guard isCurrent(first), let item = item(of: first.fence) else { continue }
      now = max(now, first.moment)
      if first.since == nil {
        crossings.append(
          Crossing(fence: first.fence, kind: .expired, at: now, confidence: 1, isInitial: false))
        try? remove(first.fence)
      } else {
        let odds = candidates[Int(slots[Int(item)].candidate)].odds
        tell(.dwell, item, odds: odds, isInitial: false)
      }
    }
    now = moment
  }

  private func isCurrent(_ deadline: Deadline) -> Bool {
    guard let item = item(of: deadline.fence) else { return false }
    guard let since = deadline.since else { return true }
    let place = Int(slots[Int(item)].candidate)
    return place >= 0 && slots[Int(item)].state == .inside && candidates[place].since == since
  }

  mutating func tell(_ kind: Crossing.Kind, _ item: Int32, odds: Double, isInitial: Bool) {
    let inside = Evidence.probability(odds)
    crossings.append(
      Crossing(
        fence: id(of: item), kind: kind, at: now, confidence: kind == .exit ? 1 - inside : inside,
        isInitial: isInitial))
  }

  mutating func startDwell(_ item: Int32) {
    guard let dwell = slots[Int(item)].detail?.fence.dwell else { return }
    deadlines.insert(Deadline(moment: now + dwell, fence: id(of: item), since: now))
  }
}

extension Point3 {
  var vector: SIMD3<Double> { SIMD3(x, y, z) }
}

extension SIMD3<Double> {
  var length: Double { (self * self).sum().squareRoot() }
}
