import Foundation
internal import OpportuneText

extension LocationReplay.Report {
  /// A page that needs nothing else: the way, the fences, the fixes that were used with their 95 % radius, and the
  /// crossings, on a plane about the middle. It shows places; it is for the one who has the trace.
  public func page(_ trace: LocationTrace, fences: [NamedRegion], title: String) -> String {
    // Fences that were crossed are shown whole; others where they are in the frame.
    let crossed = Set(crossings.map(\.fence))
    let corners = fences.filter { crossed.contains($0.name) }.flatMap { $0.region.extremes }
    let map = MapPlane(trace.fixes.map(\.position) + corners)
    var labels: [String] = []
    // So many names would hide the map.
    func label(_ fence: NamedRegion, _ name: String) {
      guard fences.count <= 40, let place = fence.region.top else { return }
      let (x, y) = map.point(place)
      labels.append("<text class=\"name\" x=\"\(x)\" y=\"\(y)\" dy=\"-4\">\(name)</text>")
    }
    var shapes: [String] = []
    for fence in fences {
      let name = fence.name.inHTML
      label(fence, name)
      switch fence.region.shape {
      case .circle(let centre, let radius):
        let (x, y) = map.point(centre)
        let radius = max(1, radius * map.pixelsPerMetre)
        shapes.append(
          "<circle class=\"fence\" cx=\"\(x)\" cy=\"\(y)\" r=\"\(short(radius))\"><title>\(name)</title></circle>")
      case .polygons(let shape):
        let path = shape.polygons.joined().map { ring in
          "M"
            + ring.map {
              let (x, y) = map.point($0)
              return "\(x) \(y)"
            }.joined(separator: "L") + "Z"
        }
        shapes.append("<path class=\"fence\" d=\"\(path.joined())\"><title>\(name)</title></path>")
      }
    }
    let way = trace.fixes.map {
      let (x, y) = map.point($0.position)
      return "\(x),\(y)"
    }.joined(separator: " ")
    shapes.append("<polyline class=\"way\" points=\"\(way)\"/>")
    for fix in used {
      let (x, y) = map.point(fix.position)
      let radius = max(1.5, fix.accuracy.radius(confidence: 0.95) * map.pixelsPerMetre)
      shapes.append("<circle class=\"fix\" cx=\"\(x)\" cy=\"\(y)\" r=\"\(short(radius))\"/>")
    }
    for crossing in crossings {
      guard let place = crossing.place else { continue }
      let (x, y) = map.point(place)
      let label = "\(crossing.kind.rawValue) \(crossing.fence.inHTML) at \(short(crossing.at)) s"
      shapes.append(
        "<circle class=\"\(crossing.kind.rawValue)\" cx=\"\(x)\" cy=\"\(y)\" r=\"5\"><title>\(label)</title></circle>")
    }
    let ran = costs.sorted { $0.key.rawValue < $1.key.rawValue }
      .map { "\($0.key.rawValue) for \(Int($0.value.seconds)) s, \(Int($0.value.millijoules)) mJ by the table" }
    let metres = MapPlane.roundLength(map.width / 5 / map.pixelsPerMetre)
    let scale = short(metres * map.pixelsPerMetre)
    let rows = crossings.map {
      "<tr><td>\(short($0.at))</td><td>\($0.kind.rawValue)</td><td>\($0.fence.inHTML)</td><td>\(String(format: "%.4f", $0.confidence))</td></tr>"
    }
    return """
      <!DOCTYPE html>
      <html lang="en"><meta charset="utf-8"><title>\(title.inHTML)</title>
      <style>
      body { font: 14px system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff }
      svg { border: 1px solid #ccc; max-width: 100%; height: auto }
      .fence { fill: #4a7fb533; stroke: #4a7fb5; fill-rule: evenodd } .way { fill: none; stroke: #999; stroke-width: 1.5 }
      .fix { fill: #0002; stroke: #555; stroke-width: .5 } .enter { fill: #1a8a3a } .exit { fill: #c2402a }
      .name { font-size: 12px; fill: #2c5782; text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 3px }
      .dwell { fill: #8a5ac2 } td, th { padding: .1em .8em .1em 0; text-align: left } td { font-variant-numeric: tabular-nums }
      </style>
      <h1>\(title.inHTML)</h1>
      <p>\(used.count) of \(fixes) fixes used, \(crossings.count) crossings, \(LocationReplay.counted(wakeups, "wake-up")), \
      \(LocationReplay.counted(prompts, "prompt")). Sources: \(ran.isEmpty ? "none" : ran.joined(separator: "; ")).</p>
      <p>Grey: the track. Rings: fixes used, with their 95 % radius. Green: enter. Red: exit. Violet: dwell.</p>
      <svg viewBox="0 0 \(short(map.width)) \(short(map.height))" width="\(short(map.width))" role="img">
      \((shapes + labels).joined(separator: "\n"))
      <path d="M10 \(short(map.height - 12))h\(scale)" stroke="#222" stroke-width="2"/>
      <text x="10" y="\(short(map.height - 18))" font-size="12">\(metres >= 1000 ? "\(Int(metres / 1000)) km" : "\(Int(metres)) m")</text>
      </svg>
      <table><tr><th>seconds</th><th>kind</th><th>fence</th><th>confidence</th></tr>
      \(rows.joined(separator: "\n"))
      </table></html>

      """
  }
}

extension Region {
  /// Above it, for its name.
  fileprivate var top: Coordinate? {
    guard let first = extremes.first, let north = extremes.map(\.latitude).max() else { return nil }
    let turned = extremes.map { $0.longitude + 360 * ((first.longitude - $0.longitude) / 360).rounded() }
    guard let low = turned.min(), let high = turned.max() else { return nil }
    return Coordinate(unchecked: north, (low + high) / 2)
  }

  /// Places that show how far it reaches.
  fileprivate var extremes: [Coordinate] {
    switch shape {
    case .circle(let centre, let radius):
      [0, 90, 180, 270].map { Ellipsoid.place(from: centre, azimuth: $0, metres: radius) }
    case .polygons(let shape):
      shape.polygons.flatMap { $0.first ?? [] }
    }
  }
}

private func short(_ value: Double) -> String { String(format: "%.1f", value) }

/// Degrees to pixels, with the same scale both ways, about the middle of some places.
private struct MapPlane {
  let width = 1000.0
  let height: Double
  let pixelsPerMetre: Double
  private let west, north: Double
  private let reference: Double
  private let metres: (north: Double, east: Double)

  init(_ places: [Coordinate]) {
    let reference = places.first?.longitude ?? 0
    func turned(_ longitude: Double) -> Double { longitude + 360 * ((reference - longitude) / 360).rounded() }
    let longitudes = places.map { turned($0.longitude) }
    let latitudes = places.map(\.latitude)
    let (low, high) = (longitudes.min() ?? 0, longitudes.max() ?? 0)
    let (south, top) = (latitudes.min() ?? 0, latitudes.max() ?? 0)
    let scale = Ellipsoid.metresPerRadian(at: (south + top) / 2)
    metres = (scale.north.radians, max(1, scale.east).radians)
    // A tenth of margin, and no less than 100 m.
    let across = max(100, (high - low) * metres.east) * 1.1
    let along = max(100, (top - south) * metres.north) * 1.1
    pixelsPerMetre = min(width / across, 1400 / along)
    height = max(200, along * pixelsPerMetre)
    west = (low + high) / 2 - width / pixelsPerMetre / 2 / metres.east
    north = (south + top) / 2 + height / pixelsPerMetre / 2 / metres.north
    self.reference = reference
  }

  func point(_ place: Coordinate) -> (String, String) {
    let longitude = place.longitude + 360 * ((reference - place.longitude) / 360).rounded()
    return (
      short((longitude - west) * metres.east * pixelsPerMetre),
      short((north - place.latitude) * metres.north * pixelsPerMetre)
    )
  }

  /// 1, 2 or 5 with zeros, no longer than asked.
  static func roundLength(_ metres: Double) -> Double {
    let power = pow(10, log10(max(1, metres)).rounded(.down))
    return [5, 2, 1].first { $0 * power <= metres }.map { $0 * power } ?? power
  }
}
