/// Circles that a device must have passed through between two fixes, though none was taken inside.
///
/// Between the fixes its position is modelled as a Brownian bridge around the straight line, as in
/// ``PathHistory``. A pass is reported if the probability of being inside, where the line is nearest to the
/// middle, reaches the policy's confidence.
enum Passes {
  /// - Parameters:
  ///   - wander: metres that a device strays from the straight way in a second.
  ///   - wanted: the log odds at which a pass is believed.
  /// - Returns: in the order in which they were passed.
  static func between(
    _ before: Fix, at start: SIMD3<Double>, _ fix: Fix, at end: SIMD3<Double>, seconds elapsed: Double,
    wander: Double, wanted: Double, through fences: FenceTable
  ) -> [(item: Int32, odds: Double)] {
    let way = end - start
    let squared = (way * way).sum()
    guard squared > 0 else { return [] }
    let (a, b) = (before.accuracy.standardDeviation, fix.accuracy.standardDeviation)
    var passed: [(item: Int32, share: Double, odds: Double)] = []
    fences.forEach(near: (end + start) / 2, within: squared.squareRoot() / 2) { item in
      let slot = fences[item]
      guard slot.state == .outside, slot.detail?.isCircle ?? true, slot.detail?.fence.region.altitude == nil
      else {
        return
      }
      let share = ((slot.centre - start) * way).sum() / squared
      // A circle around either end is left to the fix there.
      guard share > 0, share < 1, (end - slot.centre).length > slot.reach else { return }
      let (from, to) = ((1 - share) * a, share * b)
      let deviation = (from * from + to * to + wander * wander * elapsed * share * (1 - share)).squareRoot()
      let distance = (start + share * way - slot.centre).length
      let odds = Evidence.logOdds(
        Normal.inDisc(radius: slot.reach / deviation, distance: distance / deviation))
      if odds >= wanted { passed.append((item, share, odds)) }
    }
    return passed.sorted { $0.share < $1.share }.map { ($0.item, $0.odds) }
  }
}
