/// The fences of a monitor, by slot, and by nearness.
///
/// Invariants: the index has exactly the slots in use; no two fences that a slot has held have the same
/// generation.
struct FenceTable: Sendable {
  private var slots: [FenceSlot] = []
  private var index = FenceIndex()
  private var free: [Int32] = []
  /// The number of fences.
  private(set) var count = 0

  subscript(item: Int32) -> FenceSlot {
    _read { yield slots[Int(item)] }
    _modify { yield &slots[Int(item)] }
  }

  mutating func insert(_ fence: Fence) -> Int32 {
    let ball = fence.region.ball
    var slot = FenceSlot(
      centre: ball.centre.vector, reach: ball.radius, detail: fence.isPlain ? nil : FenceDetail(fence),
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
    return item
  }

  mutating func remove(_ item: Int32) {
    index.remove(item, &slots)
    slots[Int(item)].isUsed = false
    slots[Int(item)].detail = nil
    free.append(item)
    count -= 1
  }

  /// nil where the fence is gone.
  func item(of id: FenceID) -> Int32? {
    let item = Int(id.slot)
    guard slots.indices.contains(item), slots[item].isUsed, slots[item].generation == id.generation else {
      return nil
    }
    return Int32(item)
  }

  func id(of item: Int32) -> FenceID { FenceID(slot: UInt32(item), generation: slots[Int(item)].generation) }

  /// Calls `body` with each whose ball comes as near to a point as `radius` metres.
  func forEach(near point: SIMD3<Double>, within radius: Double, _ body: (Int32) -> Void) {
    index.forEach(near: point, within: radius, slots, body)
  }

  /// A lower bound of the distance in metres from a fix to the nearest border, if that is below `limit`.
  func nearestBorder(from fix: Fix, at point: SIMD3<Double>, below limit: Double) -> Double {
    index.least(from: point, below: limit, slots) { slots[Int($0)].border(from: fix, toCentre: $1) }
  }

  /// In bytes, without the memory of regions other than plain circles.
  var memory: Int {
    slots.capacity * MemoryLayout<FenceSlot>.stride + index.memory + free.capacity
      * MemoryLayout<Int32>.stride
  }
}

extension Fence {
  /// Whether the region is its ball, without a range of altitudes.
  fileprivate var isPlain: Bool {
    guard case .circle(_, let radius) = region.shape, region.altitude == nil, radius <= Point3.longestChord
    else { return false }
    return dwell == nil && expiry == nil && !reportsInitialState
  }
}

/// A fence in a monitor's table. A plain circle needs nothing else.
struct FenceSlot: Sendable {
  var centre: SIMD3<Double>
  /// The radius of its ball, and of the circle.
  var reach: Double
  /// Of all but plain circles.
  var detail: FenceDetail?
  /// The next in the list of its cell.
  var next: Int32 = -1
  /// Its place among the candidates, or none.
  var candidate: Int32 = -1
  var generation: UInt32
  var state = FenceState.unknown
  var isUsed = true

  /// A lower bound of the distance in metres from a fix to the border.
  ///
  /// - Parameter toCentre: metres from there to the centre of the ball.
  func border(from fix: Fix, toCentre: Double) -> Double {
    guard let detail else { return abs(Point3.arc(ofChord: toCentre) - reach) }
    if toCentre > reach { return toCentre - reach }
    // Inside the ball. A device can change its altitude without moving over ground, so the distance is 0.
    if detail.fence.region.altitude != nil { return 0 }
    return detail.fence.region.borderDistance(from: fix.position) * 0.98
  }

  /// Metres on the ground.
  func distanceToCentre(from fix: Fix, _ point: Point3) -> Double {
    if reach > Point3.longestChord, case .circle(let centre, _)? = detail?.fence.region.shape {
      return Ellipsoid.distance(centre, fix.position)
    }
    return Point3.arc(ofChord: (point.vector - centre).length)
  }
}

/// What a fence has beyond a circle.
final class FenceDetail: Sendable {
  let fence: Fence
  /// It is a circle; the reach is its radius.
  let isCircle: Bool

  init(_ fence: Fence) {
    self.fence = fence
    if case .circle = fence.region.shape { isCircle = true } else { isCircle = false }
  }
}
