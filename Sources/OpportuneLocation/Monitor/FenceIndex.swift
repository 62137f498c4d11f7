/// Balls in space, found by distance: a loose octree. Each cell reaches half its edge beyond itself, so each
/// ball lies in one list. In space there is neither antimeridian nor pole, and objects on a surface fill few
/// cells.
///
/// It holds numbers of slots; their balls and the links of the lists are the caller's (``FenceSlot``).
///
/// Invariants: a ball is in the deepest existing cell that holds its centre and whose half edge is no less
/// than its radius; the root takes what is too big. A cell without children holds at most `bucket` unless it
/// is the deepest.
struct FenceIndex: Sendable {
  private struct Cell: Sendable {
    /// The first of eight, or none.
    var children: Int32 = -1
    var head: Int32 = -1
    var count: Int32 = 0
    /// No ball in it is smaller, in metres.
    var least = Float.infinity
  }

  private struct Visit {
    var cell: Int32
    var centre: SIMD3<Double>
    var half: Double
  }

  private var cells = [Cell()]
  private static let bucket = 12
  private static let rootHalf = 8_388_608.0
  private static let leastHalf = 64.0
  private static let root = Visit(cell: 0, centre: .zero, half: rootHalf)

  private static func child(of visit: Visit, _ octant: Int, _ first: Int32) -> Visit {
    let half = visit.half / 2
    let offset = SIMD3(
      octant & 1 == 0 ? -half : half, octant & 2 == 0 ? -half : half, octant & 4 == 0 ? -half : half)
    return Visit(cell: first + Int32(octant), centre: visit.centre + offset, half: half)
  }

  private static func octant(_ point: SIMD3<Double>, in visit: Visit) -> Int {
    (point.x < visit.centre.x ? 0 : 1) + (point.y < visit.centre.y ? 0 : 2)
      + (point.z < visit.centre.z ? 0 : 4)
  }

  mutating func insert(_ item: Int32, _ slots: inout [FenceSlot]) {
    let (point, reach) = (slots[Int(item)].centre, slots[Int(item)].reach)
    var visit = Self.root
    while cells[Int(visit.cell)].children >= 0, reach <= visit.half / 2 {
      visit = Self.child(of: visit, Self.octant(point, in: visit), cells[Int(visit.cell)].children)
    }
    push(item, to: visit.cell, &slots)
    split(visit, &slots)
  }

  mutating func remove(_ item: Int32, _ slots: inout [FenceSlot]) {
    let (point, reach) = (slots[Int(item)].centre, slots[Int(item)].reach)
    var visit = Self.root
    while cells[Int(visit.cell)].children >= 0, reach <= visit.half / 2 {
      visit = Self.child(of: visit, Self.octant(point, in: visit), cells[Int(visit.cell)].children)
    }
    let cell = Int(visit.cell)
    var before: Int32 = -1
    var current = cells[cell].head
    while current >= 0, current != item {
      before = current
      current = slots[Int(current)].next
    }
    guard current == item else { return }
    if before >= 0 {
      slots[Int(before)].next = slots[Int(item)].next
    } else {
      cells[cell].head = slots[Int(item)].next
    }
    slots[Int(item)].next = -1
    cells[cell].count -= 1
  }

  private mutating func push(_ item: Int32, to cell: Int32, _ slots: inout [FenceSlot]) {
    slots[Int(item)].next = cells[Int(cell)].head
    cells[Int(cell)].head = item
    cells[Int(cell)].count += 1
    cells[Int(cell)].least = min(cells[Int(cell)].least, Float(slots[Int(item)].reach))
  }

  private mutating func split(_ visit: Visit, _ slots: inout [FenceSlot]) {
    let cell = Int(visit.cell)
    guard cells[cell].children < 0, cells[cell].count > Self.bucket, visit.half / 2 >= Self.leastHalf else {
      return
    }
    // Not if all balls would stay in the cell.
    guard Double(cells[cell].least) <= visit.half / 2 else { return }
    let first = Int32(cells.count)
    cells[cell].children = first
    for _ in 0..<8 { cells.append(Cell()) }
    var item = cells[cell].head
    (cells[cell].head, cells[cell].count, cells[cell].least) = (-1, 0, .infinity)
    while item >= 0 {
      let next = slots[Int(item)].next
      let fits = slots[Int(item)].reach <= visit.half / 2
      push(
        item, to: fits ? first + Int32(Self.octant(slots[Int(item)].centre, in: visit)) : visit.cell, &slots)
      item = next
    }
    for octant in 0..<8 { split(Self.child(of: visit, octant, first), &slots) }
  }

  /// Metres from a point to anything that a cell may hold.
  private static func distance(_ point: SIMD3<Double>, _ visit: Visit) -> Double {
    if visit.cell == 0 { return 0 }
    let away = point - visit.centre
    let outside = SIMD3(abs(away.x), abs(away.y), abs(away.z)) - SIMD3(repeating: 2 * visit.half)
    let clipped = pointwiseMax(outside, .zero)
    return (clipped * clipped).sum().squareRoot()
  }

  /// Calls `body` with each whose ball comes as near to a point as `radius` metres.
  func forEach(
    near point: SIMD3<Double>, within radius: Double, _ slots: [FenceSlot], _ body: (Int32) -> Void
  ) {
    var pending = [Self.root]
    while let visit = pending.popLast() {
      let cell = cells[Int(visit.cell)]
      var item = cell.head
      while item >= 0 {
        let slot = slots[Int(item)]
        let away = point - slot.centre
        let reach = slot.reach + radius
        if (away * away).sum() <= reach * reach { body(item) }
        item = slot.next
      }
      guard cell.children >= 0 else { continue }
      for octant in 0..<8 {
        let child = Self.child(of: visit, octant, cell.children)
        let below = cells[Int(child.cell)]
        guard below.children >= 0 || below.head >= 0 else { continue }
        if Self.distance(point, child) <= radius { pending.append(child) }
      }
    }
  }

  /// The minimum of `measure` over all items, if that is below `limit`. No measure may be less than the
  /// distance from the point to the item's ball.
  ///
  /// - Parameter measure: of an item, and the metres from the point to its centre.
  func least(
    from point: SIMD3<Double>, below limit: Double, _ slots: [FenceSlot], _ measure: (Int32, Double) -> Double
  ) -> Double {
    var best = limit
    var pending = [(distance: 0.0, visit: Self.root)]
    while let (distance, visit) = pending.popLast() {
      guard distance < best else { continue }
      let cell = cells[Int(visit.cell)]
      var item = cell.head
      while item >= 0 {
        let slot = slots[Int(item)]
        let away = point - slot.centre
        let toCentre = (away * away).sum().squareRoot()
        if toCentre - slot.reach < best { best = min(best, measure(item, toCentre)) }
        item = slot.next
      }
      guard cell.children >= 0 else { continue }
      // The nearest is put last, since the last is taken first.
      let start = pending.count
      for octant in 0..<8 {
        let child = Self.child(of: visit, octant, cell.children)
        let below = cells[Int(child.cell)]
        guard below.children >= 0 || below.head >= 0 else { continue }
        let distance = Self.distance(point, child)
        guard distance < best else { continue }
        var place = pending.count
        while place > start, pending[place - 1].distance < distance { place -= 1 }
        pending.insert((distance, child), at: place)
      }
    }
    return best
  }

  var memory: Int { cells.capacity * MemoryLayout<Cell>.stride }
}
