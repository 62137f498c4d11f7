import CGEOS

/// Whether rings make polygons, asked of GEOS.
enum Validity {
  /// - Parameter isOnCut: whether a point is where shapes are cut that lie on both sides, and common sides
  ///   are no border.
  /// - Returns: how many pairs of polygons had to be looked at.
  /// - Throws: ``LocationError``: `invalidPolygon`, `overlappingPolygons`, `polygonsShareSide`.
  @discardableResult static func check(
    _ polygons: [[[SIMD2<Double>]]], isOnCut: (SIMD2<Double>) -> Bool
  ) throws(LocationError) -> Int {
    // A context for each check: they are not for several threads at once, and admission is rare.
    guard let context = GEOS_init_r() else {
      throw LocationError(.invalidPolygon(reason: "GEOS has no memory"))
    }
    defer { GEOS_finish_r(context) }
    var shapes: [OpaquePointer?] = []
    for polygon in polygons {
      guard let shape = make(polygon, context) else {
        for shape in shapes { GEOSGeom_destroy_r(context, shape) }
        throw LocationError(.invalidPolygon(reason: "GEOS refuses it"))
      }
      shapes.append(shape)
    }
    // It takes the shapes over, also where it fails.
    let kind = Int32(GEOS_MULTIPOLYGON.rawValue)
    guard let whole = GEOSGeom_createCollection_r(context, kind, &shapes, UInt32(shapes.count)) else {
      throw LocationError(.invalidPolygon(reason: "GEOS refuses it"))
    }
    defer { GEOSGeom_destroy_r(context, whole) }
    if GEOSisValid_r(context, whole) == 1 { return 0 }
    // What is wrong with it, unless only the cut is.
    for case let shape? in shapes where GEOSisValid_r(context, shape) != 1 {
      throw LocationError(.invalidPolygon(reason: reason(shape, context)))
    }
    return try checkPairs(shapes.compactMap { $0 }, context, isOnCut)
  }

  /// Each two polygons whose boxes meet, found by GEOS's tree of boxes: wherever they lie, that takes no look
  /// at all others.
  private static func checkPairs(
    _ shapes: [OpaquePointer], _ context: GEOSContextHandle_t, _ isOnCut: (SIMD2<Double>) -> Bool
  ) throws(LocationError) -> Int {
    guard let tree = GEOSSTRtree_create_r(context, 10) else {
      throw LocationError(.invalidPolygon(reason: "GEOS has no memory"))
    }
    defer { GEOSSTRtree_destroy_r(context, tree) }
    // Each goes by its number from 1 on, which is never read through.
    for (number, shape) in shapes.enumerated() {
      GEOSSTRtree_insert_r(context, tree, shape, UnsafeMutableRawPointer(bitPattern: number + 1))
    }
    // What is prepared is searched by an index: there may be a thousand islands along a shore of a million
    // corners.
    var prepared = [OpaquePointer?](repeating: nil, count: shapes.count)
    defer { for shape in prepared { GEOSPreparedGeom_destroy_r(context, shape) } }
    let corners = shapes.map { GEOSGetNumCoordinates_r(context, $0) }
    var found: [Int] = []
    var pairs = 0
    for (first, shape) in shapes.enumerated() {
      found.removeAll(keepingCapacity: true)
      withUnsafeMutablePointer(to: &found) { list in
        let collect: GEOSQueryCallback = { number, list in
          list?.assumingMemoryBound(to: [Int].self).pointee.append(Int(bitPattern: number) - 1)
        }
        GEOSSTRtree_query_r(context, tree, shape, collect, list)
      }
      for second in found.sorted() where second > first {
        pairs += 1
        let (large, small) = corners[first] >= corners[second] ? (first, second) : (second, first)
        if prepared[large] == nil { prepared[large] = GEOSPrepare_r(context, shapes[large]) }
        guard GEOSPreparedIntersects_r(context, prepared[large], shapes[small]) != 0 else { continue }
        try check(shape, shapes[second], context, isOnCut)
      }
    }
    return pairs
  }

  /// Two polygons that meet may do so in points only, as in OGC's and GEOS's multipolygons, the cut apart.
  private static func check(
    _ first: OpaquePointer, _ second: OpaquePointer, _ context: GEOSContextHandle_t,
    _ isOnCut: (SIMD2<Double>) -> Bool
  ) throws(LocationError) {
    guard let matrix = GEOSRelate_r(context, first, second) else {
      throw LocationError(.invalidPolygon(reason: "GEOS cannot compare it"))
    }
    defer { GEOSFree_r(context, matrix) }
    // The dimensions in which interiors meet, and borders; F: not at all.
    guard matrix[0] == CChar(UInt8(ascii: "F")) else { throw LocationError(.overlappingPolygons) }
    guard matrix[4] == CChar(UInt8(ascii: "1")) else { return }
    let borders = [GEOSBoundary_r(context, first), GEOSBoundary_r(context, second)]
    defer { for border in borders { GEOSGeom_destroy_r(context, border) } }
    guard let common = GEOSIntersection_r(context, borders[0], borders[1]) else {
      throw LocationError(.invalidPolygon(reason: "GEOS cannot compare it"))
    }
    defer { GEOSGeom_destroy_r(context, common) }
    for index in 0..<GEOSGetNumGeometries_r(context, common) {
      let part = GEOSGetGeometryN_r(context, common, index)
      // Points may be anywhere.
      guard GEOSGeom_getDimensions_r(context, part) == 1 else { continue }
      let line = GEOSGeom_getCoordSeq_r(context, part)
      var count: UInt32 = 0
      GEOSCoordSeq_getSize_r(context, line, &count)
      for corner in 0..<count {
        var (x, y) = (0.0, 0.0)
        GEOSCoordSeq_getXY_r(context, line, corner, &x, &y)
        guard isOnCut(SIMD2(x, y)) else { throw LocationError(.polygonsShareSide) }
      }
    }
  }

  private static func make(_ rings: [[SIMD2<Double>]], _ context: GEOSContextHandle_t) -> OpaquePointer? {
    var made: [OpaquePointer?] = []
    for ring in rings {
      guard let sequence = GEOSCoordSeq_create_r(context, UInt32(ring.count + 1), 2) else { break }
      for index in 0...ring.count {
        let point = ring[index % ring.count]
        _ = GEOSCoordSeq_setXY_r(context, sequence, UInt32(index), point.x, point.y)
      }
      guard let linear = GEOSGeom_createLinearRing_r(context, sequence) else { break }
      made.append(linear)
    }
    guard made.count == rings.count, let shell = made.first ?? nil else {
      for ring in made { GEOSGeom_destroy_r(context, ring) }
      return nil
    }
    // It takes the rings over, also where it fails.
    var holes = Array(made.dropFirst())
    return GEOSGeom_createPolygon_r(context, shell, &holes, UInt32(holes.count))
  }

  /// As GEOS says it, up to where it says where.
  private static func reason(_ shape: OpaquePointer, _ context: GEOSContextHandle_t) -> String {
    guard let text = GEOSisValidReason_r(context, shape) else { return "unknown" }
    defer { GEOSFree_r(context, text) }
    return String(String(cString: text).prefix { $0 != "[" })
  }
}
