/// Polygons with holes as the monitor reads them: sides in a plane, and what of that plane is true near a
/// place.
///
/// Sides are straight in longitude and latitude, as RFC 7946 has them. They lie in one of two frames:
/// *plate*, degrees of longitude (continued beyond 180 where the shape crosses the antimeridian) and
/// latitude; or *polar*, metres from a pole, for shapes that come near one or go round it. Either is turned
/// into metres about a place by an affine map whose scales are those of the ellipsoid there; far from the
/// place lengths are off, near it they are right.
///
/// Invariants: shells run counter-clockwise in their frame and holes clockwise, so inside is left of every
/// side. No side occurs in both directions: where a shape was cut along the antimeridian, the cut is gone.
package struct PolygonShape: Sendable, Hashable {
  enum Frame: Sendable, Hashable {
    case plate(middle: Double)
    case polar(north: Bool)
  }

  struct Side: Sendable, Hashable {
    var ax, ay, bx, by: Double
  }

  private struct Box: Sendable, Hashable {
    var minX = Double.infinity
    var minY = Double.infinity
    var maxX = -Double.infinity
    var maxY = -Double.infinity
  }

  /// So many sides that follow one another, or boxes, share a box.
  private static let boxed = 16

  /// As they were given, with the first corner not repeated.
  package let polygons: [[[Coordinate]]]
  let frame: Frame
  private let sides: [Side]
  /// Boxes of sides, then of boxes, up to a single one: what is far is left out at once, however long the
  /// border.
  private let levels: [[Box]]

  /// - Throws: ``LocationError``.
  init(_ given: [[[Coordinate]]]) throws(LocationError) {
    let planar = try PlanarPolygons(given)
    polygons = planar.polygons
    frame = planar.frame
    sides = planar.sides()
    var levels = [
      Self.boxes(of: sides) { box, side in
        box.minX = min(box.minX, side.ax, side.bx)
        box.maxX = max(box.maxX, side.ax, side.bx)
        box.minY = min(box.minY, side.ay, side.by)
        box.maxY = max(box.maxY, side.ay, side.by)
      }
    ]
    while let below = levels.last, below.count > 1 {
      levels.append(
        Self.boxes(of: below) { box, part in
          box.minX = min(box.minX, part.minX)
          box.maxX = max(box.maxX, part.maxX)
          box.minY = min(box.minY, part.minY)
          box.maxY = max(box.maxY, part.maxY)
        })
    }
    self.levels = levels
  }

  private static func boxes<Part>(of parts: [Part], _ extend: (inout Box, Part) -> Void) -> [Box] {
    stride(from: 0, to: parts.count, by: boxed).map { start in
      parts[start..<min(start + boxed, parts.count)].reduce(into: Box(), extend)
    }
  }

  /// What a place is to the shape.
  package struct Relation {
    package var isInside: Bool
    /// Metres to the nearest side, in the plane about the place.
    package var distance: Double
    /// Where on the nearest side, in metres east or across, and north or outwards.
    var nearest: (x: Double, y: Double)
  }

  package func relation(to place: Coordinate) -> Relation { relation(in: LocalPlane(at: place, in: frame)) }

  /// Metres over the ellipsoid to the point of the border that the plane about the place shows as the
  /// nearest.
  func borderDistance(from place: Coordinate) -> Double {
    let plane = LocalPlane(at: place, in: frame)
    let nearest = relation(in: plane).nearest
    return Ellipsoid.distance(place, plane.place(nearest.x, nearest.y))
  }

  func relation(in plane: LocalPlane) -> Relation {
    var winding = 0
    var best = Double.infinity
    var nearest = (x: 0.0, y: 0.0)
    func measure(_ a: PlanePoint, _ b: PlanePoint) {
      let (dx, dy) = (b.x - a.x, b.y - a.y)
      let squared = dx * dx + dy * dy
      let share = squared > 0 ? min(1, max(0, -(a.x * dx + a.y * dy) / squared)) : 0
      let (x, y) = (a.x + share * dx, a.y + share * dy)
      let distance = x * x + y * y
      if distance < best {
        best = distance
        nearest = (x, y)
      }
    }
    // What is near, so that most of the rest need not be looked at.
    forEachSide(ofBox: nearestBox(in: plane), in: plane, measure)
    func mayMatter(_ box: LocalPlane.Box) -> Bool {
      let mayCross = box.minY <= 0 && box.maxY >= 0 && box.maxX >= 0
      return mayCross || box.distance * box.distance < best
    }
    forEachSide(in: plane, ofBoxes: mayMatter) { a, b in
      if (a.y <= 0) != (b.y <= 0) {
        if a.y <= 0 {
          if Self.isLeft(a, b) { winding += 1 }
        } else if !Self.isLeft(a, b) {
          winding -= 1
        }
      }
      measure(a, b)
    }
    return Relation(isInside: winding > 0, distance: best.squareRoot(), nearest: nearest)
  }

  // MARK: Boxes

  typealias PlanePoint = (x: Double, y: Double)

  private func forEachSide(ofBox index: Int, in plane: LocalPlane, _ body: (PlanePoint, PlanePoint) -> Void) {
    for side in sides[(index * Self.boxed)..<min((index + 1) * Self.boxed, sides.count)] {
      body(plane.local(side.ax, side.ay), plane.local(side.bx, side.by))
    }
  }

  /// The sides of all boxes that are wanted, as are the boxes that those are in.
  func forEachSide(
    in plane: LocalPlane, ofBoxes isWanted: (LocalPlane.Box) -> Bool, _ body: (PlanePoint, PlanePoint) -> Void
  ) {
    func visit(_ index: Int, _ level: Int) {
      guard isWanted(local(index, level, plane)) else { return }
      if level == 0 { return forEachSide(ofBox: index, in: plane, body) }
      for part in parts(of: index, level) { visit(part, level - 1) }
    }
    if !sides.isEmpty { visit(0, levels.count - 1) }
  }

  /// A box of sides that is near, by way of the nearest box on each level.
  private func nearestBox(in plane: LocalPlane) -> Int {
    var index = 0
    for level in stride(from: levels.count - 1, to: 0, by: -1) {
      let nearest = parts(of: index, level).map { ($0, local($0, level - 1, plane).distance) }.min {
        $0.1 < $1.1
      }
      index = nearest?.0 ?? index
    }
    return index
  }

  private func parts(of index: Int, _ level: Int) -> Range<Int> {
    (index * Self.boxed)..<min((index + 1) * Self.boxed, levels[level - 1].count)
  }

  private func local(_ index: Int, _ level: Int, _ plane: LocalPlane) -> LocalPlane.Box {
    let box = levels[level][index]
    return plane.box(box.minX, box.minY, box.maxX, box.maxY)
  }

  /// Whether the origin is left of a directed side. On its line the answer is the one that the half-open rule
  /// of the winding number gives, so that both agree on which side of the border a place on it is.
  static func isLeft(_ a: (x: Double, y: Double), _ b: (x: Double, y: Double)) -> Bool {
    let cross = a.x * b.y - a.y * b.x
    return cross > 0 || (cross == 0 && (a.y != b.y || b.x > a.x))
  }
}

/// Metres about a place: an affine map of a frame.
struct LocalPlane {
  private let originX, originY: Double
  private let xx, xy, yx, yy: Double
  private let frame: PolygonShape.Frame

  init(at place: Coordinate, in frame: PolygonShape.Frame) {
    self.frame = frame
    let scale = Ellipsoid.metresPerRadian(at: place.latitude)
    switch frame {
    case .plate(let middle):
      originX = place.longitude + 360 * ((middle - place.longitude) / 360).rounded()
      originY = place.latitude
      // A pole has no east; a metre keeps the map from being flat. Shapes so near to it are in the other
      // frame.
      xx = max(scale.east, 1).radians
      yy = scale.north.radians
      xy = 0
      yx = 0
    case .polar(let north):
      let point = PlanarPolygons.polar(place, north: north)
      let radius = (point.x * point.x + point.y * point.y).squareRoot()
      originX = point.x
      originY = point.y
      // Along the radius lengths are true, across it they are stretched by the radius over that of the
      // parallel.
      let (cosine, sine) = radius > 0 ? (point.x / radius, point.y / radius) : (1, 0)
      let across = radius > 0 ? scale.east / radius : 1
      xx = -sine * across
      xy = cosine * across
      yx = cosine
      yy = sine
    // (x across, y outwards) is a mirror image; swapping the sign of x keeps what is left on the left.
    }
  }

  func local(_ x: Double, _ y: Double) -> (x: Double, y: Double) {
    let (dx, dy) = (x - originX, y - originY)
    switch frame {
    case .plate: return (xx * dx, yy * dy)
    case .polar: return (-(xx * dx + xy * dy), yx * dx + yy * dy)
    }
  }

  /// The place of a point of this plane, by way of the frame.
  func place(_ x: Double, _ y: Double) -> Coordinate {
    switch frame {
    case .plate:
      return Coordinate(unchecked: min(90, max(-90, originY + y / yy)), originX + x / xx)
    case .polar(let north):
      let across = -x
      let determinant = xx * yy - xy * yx
      let dx = (across * yy - xy * y) / determinant
      let dy = (xx * y - yx * across) / determinant
      return PlanarPolygons.place(polarX: originX + dx, polarY: originY + dy, north: north)
    }
  }

  typealias Box = (minY: Double, maxY: Double, maxX: Double, distance: Double)

  /// The box of a box's corners in this plane, and its distance from the origin.
  func box(_ minX: Double, _ minY: Double, _ maxX: Double, _ maxY: Double) -> Box {
    let corners = [local(minX, minY), local(maxX, minY), local(minX, maxY), local(maxX, maxY)]
    var (lowX, lowY, highX, highY) = (Double.infinity, Double.infinity, -Double.infinity, -Double.infinity)
    for corner in corners {
      lowX = min(lowX, corner.x)
      highX = max(highX, corner.x)
      lowY = min(lowY, corner.y)
      highY = max(highY, corner.y)
    }
    let (dx, dy) = (max(lowX, -highX, 0), max(lowY, -highY, 0))
    return (lowY, highY, highX, (dx * dx + dy * dy).squareRoot())
  }
}
