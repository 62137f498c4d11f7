/// Why a location, a region or a request was refused; nothing was changed by it.
///
/// No case holds a coordinate: errors are logged, and locations are not.
public struct LocationError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What went wrong.
  public enum Code: Sendable, Hashable {
    /// A quantity that is not a number, or outside its range. Not the value itself where that is a place.
    case outOfRange(String, ClosedRange<Double>)
    /// A ring of a polygon with fewer different corners than three.
    case ringTooShort(corners: Int)
    /// A ring whose sides cross or that lies wrong among the others; the reason is that of GEOS, without its
    /// place.
    case invalidPolygon(reason: String)
    /// Members of a multipolygon whose insides meet.
    case overlappingPolygons
    /// Members of a multipolygon that meet in more than points, elsewhere than on the antimeridian.
    case polygonsShareSide
    /// A polygon that holds both poles.
    case bothPoles
    /// A region of no polygon at all.
    case noPolygons
    /// The time is before that of an earlier event.
    case clockWentBack
    /// The fence is not monitored.
    case unknownFence(FenceID)
    /// More fences than the policy allows.
    case tooManyFences(limit: Int)
  }

  /// What went wrong.
  public let code: Code

  package init(_ code: Code) { self.code = code }

  /// The same for people; never a place.
  public var message: String {
    switch code {
    case .outOfRange(let what, let range):
      "the \(what) is not within \(range.lowerBound) to \(range.upperBound)"
    case .ringTooShort(let corners): "different corners of a ring: \(corners), at least 3 are needed"
    case .invalidPolygon(let reason): "the polygon is not valid: \(reason)"
    case .overlappingPolygons: "two polygons of the region overlap"
    case .polygonsShareSide:
      "two polygons of the region share a side; join them to one, or make each a region"
    case .bothPoles: "a polygon reaches beyond 86 degrees both north and south; split it"
    case .noPolygons: "the region has no polygon"
    case .clockWentBack: "time went back"
    case .unknownFence(let fence): "\(fence) is not monitored"
    case .tooManyFences(let limit): "more fences than the limit, \(limit)"
    }
  }

  public var description: String { message }
}

/// Whether a quantity is a number within a range.
func check(_ value: Double, _ what: String, within range: ClosedRange<Double>) throws(LocationError) {
  // Not a number is in no range.
  guard range.contains(value) else { throw LocationError(.outOfRange(what, range)) }
}
