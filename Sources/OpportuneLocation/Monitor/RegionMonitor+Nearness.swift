extension RegionMonitor {
  /// So many neighbours are wanted: looked through faster than the index finds the few that matter, and the
  /// device goes a while until others are needed.
  private static let targetCount = 32.0

  /// Sees to it that all that comes within `metres` of a point is among the neighbours.
  mutating func gather(about point: SIMD3<Double>, _ metres: Double) {
    guard (point - neighbourhood.about).length + metres > neighbourhood.metres else { return }
    while true {
      let radius = max(metres, min(Self.horizon, max(2 * metres, searchRadius)))
      neighbours.removeAll(keepingCapacity: true)
      index.forEach(near: point, within: radius, slots) { neighbours.append($0) }
      neighbourhood = (point, radius)
      // By what is so over an area.
      searchRadius = radius * (Self.targetCount / Double(max(1, neighbours.count))).squareRoot()
      if Double(neighbours.count) <= 4 * Self.targetCount || radius <= 2 * metres { return }
    }
  }

  /// Metres from the last fix within which all fences are neighbours; below 0 where that is not known.
  var reachOfNeighbourhood: Double {
    neighbourhood.metres < 0 ? -1 : neighbourhood.metres - (lastPoint - neighbourhood.about).length
  }

  /// Metres from the last fix to the nearest border of the neighbours, if that is below `limit`; never more
  /// than is true.
  func nearestBorderOfNeighbours(below limit: Double) -> Double {
    var best = limit
    for item in neighbours {
      let away = lastPoint - slots[Int(item)].centre
      let toCentre = (away * away).sum().squareRoot()
      if toCentre - slots[Int(item)].reach < best { best = min(best, border(of: item, toCentre: toCentre)) }
    }
    return best
  }

  /// Metres from the last fix to the nearest border of any fence, no more than 2000 km and never more than is
  /// true.
  func nearestBorder() -> Double {
    guard lastFix != nil else { return 0 }
    let reach = min(Self.horizon, reachOfNeighbourhood)
    if reach > 0 {
      let nearest = nearestBorderOfNeighbours(below: reach)
      if nearest < reach || reach == Self.horizon { return nearest }
    }
    return index.least(from: lastPoint, below: Self.horizon, slots) { border(of: $0, toCentre: $1) }
  }

  /// Metres from the last fix to the border of a fence whose ball's centre is so far, never more than is
  /// true.
  private func border(of item: Int32, toCentre: Double) -> Double {
    let reach = slots[Int(item)].reach
    guard let detail = slots[Int(item)].detail, let fix = lastFix else {
      return abs(Point3.arc(ofChord: toCentre) - reach)
    }
    if toCentre > reach { return toCentre - reach }
    // Inside a ball. Altitudes change without a way over ground, so nothing is far from them.
    if detail.fence.region.altitude != nil { return 0 }
    return detail.fence.region.borderDistance(from: fix.position) * 0.98
  }
}
