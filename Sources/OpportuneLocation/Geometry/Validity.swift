import CGEOS

/// Whether rings make polygons, asked of GEOS.
enum Validity {
  /// - Throws: ``LocationError/invalidPolygon(reason:)``, ``LocationError/overlappingPolygons``.
  static func check(_ polygons: [[[SIMD2<Double>]]]) throws(LocationError) {
    // A context for each check: they are not for several threads at once, and admission is rare.
    guard let context = GEOS_init_r() else { throw LocationError.invalidPolygon(reason: "GEOS has no memory") }
    defer { GEOS_finish_r(context) }
    var shapes: [OpaquePointer] = []
    defer { for shape in shapes { GEOSGeom_destroy_r(context, shape) } }
    for polygon in polygons {
      guard let shape = make(polygon, context) else { throw LocationError.invalidPolygon(reason: "GEOS refuses it") }
      shapes.append(shape)
      if GEOSisValid_r(context, shape) != 1 { throw LocationError.invalidPolygon(reason: reason(shape, context)) }
    }
    let boxes = polygons.map { Box($0[0]) }
    for (first, box) in boxes.enumerated() {
      for second in boxes.indices where second > first && box.meets(boxes[second]) {
        // Interior meets interior: anything. Common borders are allowed.
        if GEOSRelatePattern_r(context, shapes[first], shapes[second], "T********") != 0 {
          throw LocationError.overlappingPolygons
        }
      }
    }
  }

  private struct Box {
    var low = SIMD2<Double>(repeating: .infinity)
    var high = SIMD2<Double>(repeating: -.infinity)

    init(_ ring: [SIMD2<Double>]) {
      for point in ring {
        low = pointwiseMin(low, point)
        high = pointwiseMax(high, point)
      }
    }

    func meets(_ other: Box) -> Bool { all(low .<= other.high) && all(other.low .<= high) }
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
