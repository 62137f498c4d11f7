import Foundation
import OpportuneLocation

/// What is drawn on one map, as elements of SVG.
struct MapDrawing {
  let plane: MapPlane
  private(set) var elements: [String] = []

  init(_ plane: MapPlane) { self.plane = plane }

  mutating func mark(_ place: Coordinate, radius: Double, class name: String, title: String? = nil) {
    let (x, y) = pixels(plane.point(place))
    add("circle", name, "cx=\"\(x)\" cy=\"\(y)\" r=\"\(tenths(radius))\"", title)
  }

  mutating func cross(_ place: Coordinate, class name: String, title: String) {
    let (x, y) = pixels(plane.point(place) - 4)
    add("path", name, "d=\"M\(x) \(y)l8 8m0 -8l-8 8\"", title)
  }

  mutating func label(_ text: String, above places: [Coordinate]) {
    let points = places.map(plane.point)
    guard let top = points.map(\.y).min(), let west = points.map(\.x).min(), let east = points.map(\.x).max()
    else {
      return
    }
    let (x, y) = pixels(MapPlane.Point((west + east) / 2, top))
    elements.append("<text class=\"name\" x=\"\(x)\" y=\"\(y)\" dy=\"-4\">\(text)</text>")
  }

  mutating func way(_ places: [Coordinate]) {
    var path = MapPath(plane) { from, to, share in
      let way = Ellipsoid.way(from, to)
      return Ellipsoid.place(from: from, azimuth: way.azimuth, metres: way.metres * share)
    }
    path.add(places, isClosed: false)
    add("path", "way", "d=\"\(path.text)\"", nil)
  }

  /// Circles smaller than this, as far away, are round on the map within half a percent.
  private static let undistorted = 1_000_000.0

  mutating func fence(_ region: Region, title: String) {
    let ball = region.ball
    // A chord is never longer than the way over the surface.
    guard Point3(plane.centre).chord(to: ball.centre) - ball.radius <= plane.reach else { return }
    var area = MapPath(plane, Self.straight)
    var border = MapPath(plane, Self.straight)
    var isCut = false
    switch region.shape {
    case .circle(let centre, let radius):
      let pixels = radius * plane.pixelsPerMetre
      if pixels < 2 || Ellipsoid.distance(plane.centre, centre) + radius < Self.undistorted {
        return mark(centre, radius: max(1, pixels), class: "fence", title: title)
      }
      let rim = (0..<72).map { Ellipsoid.place(from: centre, azimuth: Double($0) * 5, metres: radius) }
      area.add(rim, isClosed: true)
      border.add(rim, isClosed: true)
    case .polygons(let shape):
      for ring in shape.polygons.joined() {
        area.add(ring, isClosed: true)
        border.add(ring, isClosed: true) { from, to in
          guard abs(from.longitude) == 180, abs(to.longitude) == 180 else { return false }
          let middle = Coordinate(unchecked: (from.latitude + to.latitude) / 2, 180)
          // Both sides of it are inside: the shape was cut there to be written down.
          guard shape.relation(to: middle).distance > 1 else { return false }
          isCut = true
          return true
        }
      }
    }
    // What holds the place opposite is all that is outside the border as it is drawn.
    if region.contains(plane.antipode) {
      area.addRim()
      isCut = true
    }
    if isCut {
      add("path", "fence area", "d=\"\(area.text)\"", title)
      add("path", "fence border", "d=\"\(border.text)\"", nil)
    } else {
      add("path", "fence", "d=\"\(area.text)\"", title)
    }
  }

  /// Meridians and parallels, where a map is of so much that they help.
  mutating func graticule() {
    guard plane.reach > 1_000_000 else { return }
    let step = plane.reach > 4_000_000 ? 30 : 10
    var path = MapPath(plane, Self.straight)
    for longitude in stride(from: -180, to: 180, by: step) {
      path.add(
        stride(from: -80, through: 80, by: 10).map { Coordinate(unchecked: Double($0), Double(longitude)) },
        isClosed: false)
    }
    for latitude in stride(from: -90 + step, to: 90, by: step) {
      path.add(
        stride(from: -180, to: 180, by: 10).map { Coordinate(unchecked: Double(latitude), Double($0)) },
        isClosed: true)
    }
    add("path", "graticule", "d=\"\(path.text)\"", nil)
  }

  private mutating func add(_ element: String, _ name: String, _ attributes: String, _ title: String?) {
    let start = "<\(element) class=\"\(name)\" \(attributes)"
    let drawn = title.map { "\(start)><title>\($0)</title></\(element)>" } ?? "\(start)/>"
    // A device that stands is seen at the same place for hours.
    if elements.last != drawn { elements.append(drawn) }
  }

  /// Sides of polygons are straight in longitude and latitude, and go the shorter way round.
  private static func straight(_ from: Coordinate, _ to: Coordinate, _ share: Double) -> Coordinate {
    let change = remainder(to.longitude - from.longitude, 360)
    return Coordinate(
      unchecked: from.latitude + (to.latitude - from.latitude) * share, from.longitude + change * share)
  }
}

/// The lines of a path, cut finely enough to be where they are on the Earth. What a pixel cannot show is left
/// out, so that borders of a million corners and tracks of a million fixes make pages that open.
struct MapPath {
  private(set) var text = ""
  private let plane: MapPlane
  private let centre: Point3
  private let between: (Coordinate, Coordinate, Double) -> Coordinate
  private var last = (x: "", y: "")

  /// - Parameter between: the place that lies on a line at a share of it.
  init(_ plane: MapPlane, _ between: @escaping (Coordinate, Coordinate, Double) -> Coordinate) {
    self.plane = plane
    self.between = between
    centre = Point3(plane.centre)
  }

  /// - Parameter isHidden: whether a line is passed over.
  mutating func add(
    _ places: [Coordinate], isClosed: Bool, isHidden: (Coordinate, Coordinate) -> Bool = { _, _ in false }
  ) {
    guard let first = places.first else { return }
    var from = first
    move(to: plane.point(first))
    var wasHidden = false
    // The last of those that were passed over, since they lie where `from` does as far as can be seen.
    var skipped: Coordinate?
    for index in 1...max(1, places.count) {
      guard index < places.count || isClosed else { break }
      let place = places[index % places.count]
      if isHidden(skipped ?? from, place) {
        if let skipped { line(from, skipped) }
        (from, skipped) = (place, nil)
        move(to: plane.point(place))
        wasHidden = true
      } else if isClose(place, to: from) {
        skipped = place
      } else {
        if let skipped { line(from, skipped) }
        line(skipped ?? from, place)
        (from, skipped) = (place, nil)
      }
    }
    if let skipped { line(from, skipped) }
    if isClosed, !wasHidden { text += "Z" }
  }

  /// The circle that stands for the place on the other side of the Earth.
  mutating func addRim() {
    let (middle, radius) = plane.rim
    move(to: middle - MapPlane.Point(radius, 0))
    let (r, d) = (tenths(radius), tenths(2 * radius))
    text += "a\(r) \(r) 0 1 0 \(d) 0a\(r) \(r) 0 1 0 -\(d) 0Z"
  }

  /// Whether it looks the same: nearer than half a pixel, or outside the map by far more.
  private func isClose(_ place: Coordinate, to other: Coordinate) -> Bool {
    let north = place.latitude - other.latitude
    let east = remainder(place.longitude - other.longitude, 360) * cos(other.latitude.radians)
    let metres = 111_320 * (north * north + east * east).squareRoot()
    if metres < 0.5 / plane.pixelsPerMetre { return true }
    return metres < (Point3(place).chord(to: centre) - plane.reach) / 8
  }

  private mutating func line(_ from: Coordinate, _ to: Coordinate) {
    let change = max(abs(to.latitude - from.latitude), abs(remainder(to.longitude - from.longitude, 360)))
    let pieces = max(1, Int((change / 5).rounded(.up)))
    var (start, point) = (from, plane.point(from))
    for piece in 1...pieces {
      let end = piece == pieces ? to : between(from, to, Double(piece) / Double(pieces))
      let next = plane.point(end)
      line(start, point, end, next, halvings: 14)
      (start, point) = (end, next)
    }
  }

  /// Halves a line until its middle is where it should be.
  private mutating func line(
    _ from: Coordinate, _ a: MapPlane.Point, _ to: Coordinate, _ b: MapPlane.Point, halvings: Int
  ) {
    let gap = (b - a).pixels
    // Too short to be bent, or unable to come into the map.
    guard gap > 8, halvings > 0, (a - plane.rim.middle).pixels < plane.reach * plane.pixelsPerMetre + 2 * gap
    else {
      return draw(to: b)
    }
    let middle = between(from, to, 0.5)
    let point = plane.point(middle)
    guard (point - (a + b) / 2).pixels > 0.5 else { return draw(to: b) }
    line(from, a, middle, point, halvings: halvings - 1)
    line(middle, point, to, b, halvings: halvings - 1)
  }

  private mutating func move(to point: MapPlane.Point) {
    last = pixels(point)
    text += "M\(last.x) \(last.y)"
  }

  private mutating func draw(to point: MapPlane.Point) {
    let next = pixels(point)
    guard next != last else { return }
    last = next
    text += "L\(next.x) \(next.y)"
  }
}

extension MapPlane.Point {
  fileprivate var pixels: Double { (self * self).sum().squareRoot() }
}

private func pixels(_ point: MapPlane.Point) -> (x: String, y: String) { (tenths(point.x), tenths(point.y)) }

/// With one digit after the point. A page has so many numbers that a general format takes longer than all the
/// rest.
func tenths(_ value: Double) -> String {
  let scaled = Int((min(1e12, max(-1e12, value)) * 10).rounded())
  return "\(scaled < 0 ? "-" : "")\(abs(scaled) / 10).\(abs(scaled) % 10)"
}
