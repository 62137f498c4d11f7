/// A cache of the fences around a point, so that the index is not searched for each fix.
///
/// Invariant: while it is known, `items` has all fences that come as near to `about` as `metres`, and nothing
/// else.
struct Neighbourhood: Sendable {
  /// Metres within which borders are looked for.
  static let horizon = 2_000_000.0
  /// The desired number of fences. So many are looked through faster than the index finds the few that
  /// matter, and they last for a while as the device moves.
  private static let targetCount = 32.0

  private(set) var items: [Int32] = []
  private var about = SIMD3<Double>.zero
  /// Below 0: not known.
  private var metres = -1.0
  /// The radius of the next search in metres; adapted if it holds too many or too few fences.
  private var searchRadius = 1000.0

  /// Called when fences were added or removed.
  mutating func forget() { metres = -1 }

  /// Searches again, unless all fences within `distance` of the point are here.
  mutating func gather(about point: SIMD3<Double>, _ distance: Double, from fences: FenceTable) {
    guard (point - about).length + distance > metres else { return }
    while true {
      let radius = max(distance, min(Self.horizon, max(2 * distance, searchRadius)))
      items.removeAll(keepingCapacity: true)
      fences.forEach(near: point, within: radius) { items.append($0) }
      (about, metres) = (point, radius)
      // The count grows with the area.
      searchRadius = radius * (Self.targetCount / Double(max(1, items.count))).squareRoot()
      if Double(items.count) <= 4 * Self.targetCount || radius <= 2 * distance { return }
    }
  }

  /// The radius around the point, in metres, within which all fences are here; below 0 if unknown.
  func reach(from point: SIMD3<Double>) -> Double { metres < 0 ? -1 : metres - (point - about).length }

  /// A lower bound of the distance in metres from a fix to the nearest border of the fences here, if that is
  /// below `limit`.
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
