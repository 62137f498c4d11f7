import OpportuneApps

extension RegionMonitor {
  /// Tells of circles that the device must have passed through since the last fix, though none was taken
  /// inside.
  ///
  /// Between two fixes it is taken to wander about the straight way like a Brownian bridge, as
  /// ``PathHistory`` has it: where it was nearest to the middle it was inside with a probability, which has
  /// to reach the policy's confidence.
  mutating func inferPasses(to fix: Fix, _ point: SIMD3<Double>, elapsed: Double) {
    guard let wander = policy.wander, let before = lastFix, elapsed > 0 else { return }
    let way = point - lastPoint
    let squared = (way * way).sum()
    guard squared > 0 else { return }
    let (a, b) = (before.accuracy.standardDeviation, fix.accuracy.standardDeviation)
    var passed: [(item: Int32, share: Double, odds: Double)] = []
    index.forEach(near: (point + lastPoint) / 2, within: squared.squareRoot() / 2, slots) { item in
      let slot = slots[Int(item)]
      guard slot.state == .outside, slot.detail?.isCircle ?? true, slot.detail?.fence.region.altitude == nil
      else {
        return
      }
      let share = ((slot.centre - lastPoint) * way).sum() / squared
      // Of what lies about either end the fix itself decides.
      guard share > 0, share < 1, (point - slot.centre).length > slot.reach else { return }
      let (from, to) = ((1 - share) * a, share * b)
      let deviation = (from * from + to * to + wander * wander * elapsed * share * (1 - share)).squareRoot()
      let distance = (lastPoint + share * way - slot.centre).length
      let odds = Evidence.logOdds(
        Normal.inDisc(radius: slot.reach / deviation, distance: distance / deviation))
      if odds >= wanted { passed.append((item, share, odds)) }
    }
    for (item, _, odds) in passed.sorted(by: { $0.share < $1.share }) {
      tell(.enter, item, odds: odds, isInitial: false)
      // On which side it is now, the fix says.
      tell(.exit, item, odds: -odds, isInitial: false)
    }
  }
}
