import Foundation
import OpportuneBase
import OpportuneLocation
import ToolSupport

extension LocationReplay.Report {
  /// A page of the way, the fences, the fixes that were used with their 95 % radius,
  /// the crossings, and all that the text says. It shows places; it is for the one who has the trace.
  package func page(_ trace: LocationTrace, fences: [NamedRegion], title: String) -> String {
    let (way, outliers) = Self.sorted(trace.fixes)
    // Fences that were crossed are shown whole; others where they are in the frame.
    let crossed = Set(crossings.map(\.fence))
    let corners = fences.filter { crossed.contains($0.name) }.flatMap { $0.region.extremes }
    let planes = MapPlane.planes(of: way + corners)
    let maps = planes.enumerated().map { number, plane in
      svg(draw(on: plane, fences, way, outliers), isClippedBy: plane.isHemisphere ? "rim\(number)" : nil)
    }
    let beyond = outliers.count { outlier in !planes.contains { $0.shows(outlier.position) } }
    let rows = crossings.map {
      [tenths($0.at), $0.kind.rawValue, $0.fence, String(format: "%.4f", $0.confidence)]
    }
    let said = """
      <p>\(summary.map(\.inHTML).joined(separator: "<br>\n"))</p>
      <p>Grey: the track. Rings: fixes used, with their 95 % radius. Green: enter. Red: exit. Violet: dwell. Orange \
      crosses: outliers, used or not\(beyond > 0 ? "; \(beyond) of \(outliers.count) beyond the map" : "").</p>
      """
    let table = HTMLPage.table(["seconds", "kind", "fence", "confidence"], rows, isNumber: { _ in false })
    return HTMLPage.text(title: title, style: Self.style, [said] + maps + [table])
  }

  private static let style = """
    svg { border: 1px solid var(--grid); }
    .fence { fill: #4a7fb533; stroke: #4a7fb5; fill-rule: evenodd; stroke-linecap: round; }
    .area { stroke: none; } .border, .way, .graticule, .outlier { fill: none; } .graticule { stroke: var(--grid); }
    .way { stroke: #999; stroke-width: 1.5; } .outlier { stroke: #e08a00; stroke-width: 2; }
    .fix { fill: #8883; stroke: var(--soft); stroke-width: .5; } .enter { fill: #1a8a3a; } .exit { fill: #c2402a; }
    .name { fill: #4a7fb5; text-anchor: middle; paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
    .dwell { fill: #8a5ac2; }
    """

  /// The way of the device, and what no device can have done, which would shrink the map.
  private static func sorted(_ fixes: [Fix]) -> (way: [Coordinate], outliers: [Fix]) {
    guard var monitor = try? RegionMonitor() else { return (fixes.map(\.position), []) }
    var (way, outliers): ([Coordinate], [Fix]) = ([], [])
    for fix in fixes {
      _ = monitor.update(fix)
      if monitor.lastVerdict == .outlier { outliers.append(fix) } else { way.append(fix.position) }
    }
    return (way, outliers)
  }

  private func draw(
    on plane: MapPlane, _ fences: [NamedRegion], _ way: [Coordinate], _ outliers: [Fix]
  ) -> MapDrawing {
    var map = MapDrawing(plane)
    map.graticule()
    for fence in fences { map.fence(fence.region, title: fence.name.inHTML) }
    map.way(way)
    for fix in used {
      let radius = fix.accuracy.radius(confidence: 0.95) * plane.pixelsPerMetre
      map.mark(fix.position, radius: max(1.5, radius), class: "fix")
    }
    for fix in outliers {
      map.cross(fix.position, class: "outlier", title: "outlier at \(tenths(fix.time.seconds)) s")
    }
    for crossing in crossings {
      guard let place = crossing.place else { continue }
      map.mark(
        place, radius: 5, class: crossing.kind.rawValue,
        title: "\(crossing.kind.rawValue) \(crossing.fence.inHTML) at \(tenths(crossing.at)) s")
    }
    // So many names would hide the map.
    if fences.count <= 40 {
      for fence in fences { map.label(fence.name.inHTML, above: fence.region.extremes) }
    }
    return map
  }

  /// A map with a scale; of half the Earth, only what is in its disc.
  private func svg(_ map: MapDrawing, isClippedBy rim: String?) -> String {
    let plane = map.plane
    let (width, height) = (tenths(plane.width), tenths(plane.height))
    var drawn = map.elements.joined(separator: "\n")
    if let rim {
      let radius = tenths(plane.reach * plane.pixelsPerMetre)
      let disc = "cx=\"\(tenths(plane.width / 2))\" cy=\"\(tenths(plane.height / 2))\" r=\"\(radius)\""
      drawn = """
        <clipPath id="\(rim)"><circle \(disc)/></clipPath>
        <g clip-path="url(#\(rim))">
        \(drawn)
        </g><circle class="way" \(disc)/>
        """
    }
    let metres = MapPlane.roundLength(plane.width / 5 / plane.pixelsPerMetre)
    return """
      <svg viewBox="0 0 \(width) \(height)" width="\(width)" role="img">
      \(drawn)
      <path d="M10 \(tenths(plane.height - 12))h\(tenths(metres * plane.pixelsPerMetre))" stroke="currentColor" stroke-width="2"/>
      <text x="10" y="\(tenths(plane.height - 18))" font-size="12">\(metres >= 1000 ? "\(Int(metres / 1000)) km" : "\(Int(metres)) m")</text>
      </svg>
      """
  }
}

extension Region {
  /// Places that show how far it reaches.
  fileprivate var extremes: [Coordinate] {
    switch shape {
    case .circle(let centre, let radius):
      [0, 90, 180, 270].map { Ellipsoid.place(from: centre, azimuth: $0, metres: radius) }
    case .polygons(let shape):
      // A few hundred corners of each say it well enough.
      shape.polygons.flatMap { polygon in
        let shell = polygon.first ?? []
        return stride(from: 0, to: shell.count, by: max(1, shell.count / 500)).map { shell[$0] }
      }
    }
  }
}
