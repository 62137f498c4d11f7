// How probable it is that a device is inside a region, given a fix: of a region, and below it of polygons. Of
// a circle it is `Normal.inDisc`. What a series of fixes says of a fence is `Evidence`.

extension Region {
  /// The probability that a device is inside, given a fix: its errors are normal, and nothing else is known.
  ///
  /// - Returns: `nil` where the region has a range of altitudes and the fix has none.
  public func probability(_ fix: Fix) -> Double? {
    guard let height = vertical(fix) else { return nil }
    switch shape {
    case .circle(let centre, let radius):
      let deviation = fix.accuracy.standardDeviation
      let distance = Ellipsoid.distance(centre, fix.position)
      return height * Normal.inDisc(radius: radius / deviation, distance: distance / deviation)
    case .polygons(let polygons):
      return height
        * polygons.probability(about: fix.position, deviation: fix.accuracy.standardDeviation).inside
    }
  }

  /// The probability that the altitude is within the range; 1 without one, `nil` where it is not known.
  func vertical(_ fix: Fix) -> Double? {
    guard let altitude else { return 1 }
    guard let own = fix.altitude else { return nil }
    // The difference of the smaller tails keeps its digits.
    let low = (altitude.lowerBound - own.metres) / own.standardDeviation
    let high = (altitude.upperBound - own.metres) / own.standardDeviation
    return low > 0 ? Normal.below(-low) - Normal.below(-high) : Normal.below(high) - Normal.below(low)
  }
}

extension PolygonShape {
  /// The probability that a point with a normal error about `place` lies inside. Exact for the plane about
  /// the place: the winding number less what lies beyond each side, which is a difference of two values of
  /// Owen's T function.
  ///
  /// - Parameter deviation: metres, on each axis.
  func probability(about place: Coordinate, deviation: Double) -> (inside: Double, relation: Relation) {
    let plane = LocalPlane(at: place, in: frame)
    let relation = relation(in: plane)
    var result = relation.isInside ? 1.0 : 0.0
    let reach = 8.5 * deviation
    guard relation.distance < reach else { return (result, relation) }
    func isInReach(_ box: LocalPlane.Box) -> Bool { box.distance < reach }
    forEachSide(in: plane, ofBoxes: isInReach) { a, b in
      let (dx, dy) = (b.x - a.x, b.y - a.y)
      let length = (dx * dx + dy * dy).squareRoot()
      guard length > 0 else { return }
      let height = abs(a.x * b.y - a.y * b.x) / length
      guard height < reach else { return }
      let (from, to) = ((a.x * dx + a.y * dy) / length, (b.x * dx + b.y * dy) / length)
      let h = height / deviation
      let turn = Self.isLeft(a, b) ? 1.0 : -1.0
      // On the line itself the slopes are infinite, and of the sign of where the end lies.
      let (slopeA, slopeB) = height > 0 ? (from / height, to / height) : (from * .infinity, to * .infinity)
      result -= turn * (Self.wedge(h, slopeB) - Self.wedge(h, slopeA))
    }
    return (min(1, max(0, result)), relation)
  }

  private static func wedge(_ h: Double, _ slope: Double) -> Double {
    slope.isNaN ? 0 : Normal.owensT(h, slope)
  }
}
