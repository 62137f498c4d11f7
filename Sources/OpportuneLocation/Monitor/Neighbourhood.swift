/// The fences about a place, so that the index need not be asked at each fix.
///
/// Invariant: while it is known, `items` has all fences that come as near to `about` as `metres`, and nothing
/// else.
struct Neighbourhood: Sendable {
  /// Metres within which borders are looked for.
  static let horizon = 2_000_000.0
  /// So many are wanted: looked through faster than the index finds the few that matter, and the device goes
  /// a while until others are needed.
  private static let targetCount = 32.0

  private(set) var items: [Int32] = []
  private var about = SIMD3<Double>.zero
  /// Below 0: not known.
  private var metres = -1.0
  /// Of the next one, in metres, unless it proves too crowded or too lonely.
  private var searchRadius = 1000.0

  /// Fences have come or gone.
  mutating func forget() { metres = -1 }

  /// Sees to it that all that comes within `distance` of a point is here.
  mutating func gather(about point: SIMD3<Double>, _ distance: Double, from fences: FenceTable) {
    guard (point - about).length + distance > metres else { return }
    while true {
      let radius = max(distance, min(Self.horizon, max(2 * distance, searchRadius)))
      items.removeAll(keepingCapacity: true)
      fences.forEach(near: point, within: radius) { items.append($0) }
      (about, metres) = (point, radius)
      // By what is so over an area.
      searchRadius = radius * (Self.targetCount / Double(max(1, items.count))).squareRoot()
      if Double(items.count) <= 4 * Self.targetCount || radius <= 2 * distance { return }
    }
  }

  /// Metres from a point within which all fences are here; below 0 where that is not known.
  func reach(from point: SIMD3<Double>) -> Double { metres < 0 ? -1 : metres - (point - about).length }

  /// Metres from a fix to the nearest border of those that are here, if that is below `limit`; never more
  /// than is true.
  func nearestBorder(
    from fix: Fix, at point: SIMD3<Double>, below limit: Double, of fences: FenceTable
  ) -> Double {
    var best = limit
    for item in items {
      let toCentre = (point - fences[item].centre).length
      if toCentre - fences[item].reach < best {
        best = min(best, fences[item].border(from: fix, toCentre: toCentre))
      }
    }
    return best
  }

  /// In bytes.
  var memory: Int { items.capacity * MemoryLayout<Int32>.stride }
}
