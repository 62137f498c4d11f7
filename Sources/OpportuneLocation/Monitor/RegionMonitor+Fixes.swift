import OpportuneApps
internal import OpportuneBase

extension RegionMonitor {
  /// Holds the fences against a fix: first what was due before its time, then the fix.
  ///
  /// - Returns: the crossings, in the order in which they are known.
  public mutating func update(_ fix: Fix) -> [Crossing] {
    guard fix.time >= now, lastFix.map({ fix.time > $0.time }) ?? true else {
      statistics.old += 1
      lastVerdict = .old
      return []
    }
    pass(until: fix.time, inclusive: false)
    let point = Point3(fix.position)
    let elapsed = seconds(to: fix)
    guard isPlausible(fix, point.vector) else {
      statistics.outliers += 1
      lastVerdict = .outlier
      return takeCrossings()
    }
    statistics.fixes += 1
    lastVerdict = .used
    let step = seconds(to: fix)
    if fresh.isEmpty { inferPasses(to: fix, point.vector, elapsed: step) }
    if let lastFix {
      let way = point.vector - lastPoint
      (velocity, lastElapsed) = (way / step, step)
      highestSpeed = (way.length + Self.doubt(lastFix, fix)) / step + policy.acceleration / 2 * step
    }
    lastFix = fix
    lastPoint = point.vector
    let deviation = fix.accuracy.standardDeviation
    if fresh.isEmpty {
      // Clear of every border, and on the same side of it as before.
      let moved = (point.vector - safeRadius.about).length
      if moved + Self.clearance * deviation < safeRadius.metres { return takeCrossings() }
    }
    judge(fix, point, elapsed: elapsed)
    safeRadius = (point.vector, -1)
    if candidates.allSatisfy({ $0.isClear }) {
      safeRadius.metres = min(reachOfNeighbourhood, nearestBorderOfNeighbours(below: Self.horizon))
    }
    return takeCrossings()
  }

  /// In deviations: farther from a border than this, a fix says all it can.
  private static let clearance = 8.5
  /// Metres within which borders are looked for.
  static let horizon = 2_000_000.0

  private func seconds(to fix: Fix) -> Double { lastFix?.time.duration(to: fix.time).inSeconds ?? .infinity }

  /// Metres a second that a device may reach at any time: the fastest trains in service go 97.
  private static let ordinary = 100.0
  /// Metres that two fixes may lie apart of a device that has not moved.
  private static func doubt(_ one: Fix, _ other: Fix) -> Double {
    let (a, b) = (one.accuracy.standardDeviation, other.accuracy.standardDeviation)
    return 4 * (a * a + b * b).squareRoot()
  }

  /// Whether a device can have come to this fix from the last one; or else from suspect ones, if enough of
  /// them agree, of which the last is ``lastFix`` then.
  private mutating func isPlausible(_ fix: Fix, _ point: SIMD3<Double>) -> Bool {
    func isInReach(of other: Fix, _ there: SIMD3<Double>, at speed: (_ seconds: Double) -> Double) -> Bool {
      let seconds = other.time.duration(to: fix.time).inSeconds
      return (point - there).length <= min(policy.fastest, speed(seconds)) * seconds + Self.doubt(other, fix)
    }
    guard let lastFix,
      !isInReach(
        of: lastFix, lastPoint, at: { max(Self.ordinary, highestSpeed + policy.acceleration / 2 * $0) })
    else {
      suspect = nil
      return true
    }
    // How fast a device goes that was not followed is not known.
    guard let others = suspect, case let there = Point3(others.fix.position).vector,
      isInReach(of: others.fix, there, at: { _ in .infinity })
    else {
      suspect = (fix: fix, count: 1)
      return false
    }
    guard others.count + 1 >= policy.agreeing else {
      suspect = (fix: fix, count: others.count + 1)
      return false
    }
    (self.lastFix, lastPoint, suspect) = (others.fix, there, nil)
    return true
  }

  private mutating func judge(_ fix: Fix, _ point: Point3, elapsed: Double) {
    let reach = Self.clearance * fix.accuracy.standardDeviation
    gather(about: point.vector, reach)
    for item in neighbours where slots[Int(item)].candidate < 0 {
      let away = point.vector - slots[Int(item)].centre
      let within = slots[Int(item)].reach + reach
      guard (away * away).sum() <= within * within else { continue }
      attend(to: item, odds: slots[Int(item)].state == .unknown ? 0 : -Evidence.limit)
    }
    // What is new and far is outside.
    for item in fresh where slots[Int(item)].isUsed && slots[Int(item)].candidate < 0 {
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
    guard let (evidence, border) = self.evidence(item, fix, point) else {
      candidates[place].isClear = false
      candidates[place].isSure = false
      return
    }
    let faded = Evidence.faded(candidates[place].odds, over: elapsed, stay: policy.stay.inSeconds)
    let odds = min(Evidence.limit, max(-Evidence.limit, faded + evidence * share))
    candidates[place].odds = odds
    let isClear = border > Self.clearance * fix.accuracy.standardDeviation
    decide(item, odds: odds)
    let agrees = slots[Int(item)].state == (evidence > 0 ? .inside : .outside)
    candidates[place].isClear = isClear && agrees
    candidates[place].isSure = agrees && (isClear || abs(odds) >= wanted)
    if isClear, agrees, evidence < 0 { forget(at: place) }
  }

  /// Moves a fence to the side that the odds are sure of, if they are, and tells.
  private mutating func decide(_ item: Int32, odds: Double) {
    let state: FenceState = odds >= wanted ? .inside : odds <= -wanted ? .outside : slots[Int(item)].state
    let before = slots[Int(item)].state
    guard state != before else { return }
    slots[Int(item)].state = state
    let isInitial = before == .unknown
    if state == .inside {
      candidates[Int(slots[Int(item)].candidate)].since = now
      startDwell(item)
    }
    if !isInitial || slots[Int(item)].detail?.fence.reportsInitialState == true {
      tell(state == .inside ? .enter : .exit, item, odds: odds, isInitial: isInitial)
    }
  }

  /// What a fix says of a fence, and how far it is from its border; `nil` where it says nothing.
  private func evidence(_ item: Int32, _ fix: Fix, _ point: Point3) -> (odds: Double, border: Double)? {
    let slot = slots[Int(item)]
    let deviation = fix.accuracy.standardDeviation
    var vertical: (probability: Double, beyond: Double)?
    if let region = slot.detail?.fence.region, let range = region.altitude {
      guard let altitude = fix.altitude, let probability = region.vertical(fix) else { return nil }
      let outside = max(range.lowerBound - altitude.metres, altitude.metres - range.upperBound)
      vertical = (probability, outside / altitude.standardDeviation)
    }
    let inside: Double
    let signed: Double
    if let detail = slot.detail, case .polygons(let polygons) = detail.fence.region.shape {
      let found = polygons.probability(about: fix.position, deviation: deviation)
      inside = found.inside
      signed = found.relation.isInside ? -found.relation.distance : found.relation.distance
    } else {
      let distance = distanceToCentre(slot, fix, point)
      signed = distance - slot.reach
      // Outside a disc it is less than a half, and not looked at.
      inside =
        signed >= 0
        ? 0
        : signed < -Self.clearance * deviation
          ? 1 : Normal.inDisc(radius: slot.reach / deviation, distance: distance / deviation)
    }
    let odds = Evidence.of(inside: inside, beyond: signed / deviation, vertical: vertical)
    // A border of altitudes counts where it is the one that the device is at.
    if let vertical, signed < Self.clearance * deviation {
      return (odds, min(abs(signed), abs(vertical.beyond) * deviation))
    }
    return (odds, abs(signed))
  }

  private func distanceToCentre(_ slot: FenceSlot, _ fix: Fix, _ point: Point3) -> Double {
    if slot.reach > Point3.longestChord, case .circle(let centre, _)? = slot.detail?.fence.region.shape {
      return Ellipsoid.distance(centre, fix.position)
    }
    return Point3.arc(ofChord: (point.vector - slot.centre).length)
  }
}
