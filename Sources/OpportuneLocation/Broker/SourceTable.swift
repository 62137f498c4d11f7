/// What a kind of source can do and what it costs. (R-LOC-08)
public struct SourceSpecification: Sendable, Hashable, Codable {
  /// Which source.
  public var kind: SourceKind
  /// It serves requests for so many metres, and for more.
  public var serves: Double
  /// The radius in metres that holds 68 % of its fixes, as a rule.
  public var typicalRadius: Double
  /// Milliwatts while it runs.
  public var power: Double

  /// What a kind of source can do, in metres, and costs, in milliwatts.
  public init(_ kind: SourceKind, serves: Double, typicalRadius: Double, power: Double) {
    self.kind = kind
    self.serves = serves
    self.typicalRadius = typicalRadius
    self.power = power
  }
}

/// The sources of a device, as data. (R-LOC-07, R-LOC-08)
public struct SourceTable: Sendable, Hashable, Codable {
  /// What the device has.
  public var sources: [SourceSpecification]

  /// The sources of a machine.
  public init(_ sources: [SourceSpecification]) { self.sources = sources }

  /// 3 km asks for cells, 500 m for WiFi, 100 m for satellites, and beacons serve where there are any. The
  /// powers are of the order that phones are reported to need, to compare sources with; a device should state
  /// its own.
  public static let standard = SourceTable([
    SourceSpecification(.cell, serves: 3000, typicalRadius: 300, power: 5),
    SourceSpecification(.wifi, serves: 500, typicalRadius: 50, power: 60),
    SourceSpecification(.beacon, serves: 20, typicalRadius: 10, power: 20),
    SourceSpecification(.satellite, serves: 1, typicalRadius: 5, power: 300),
  ])

  /// The cheapest of those available that serve a request for so many metres; without one, the finest of
  /// them.
  package func source(for metres: Double, among available: Set<SourceKind>) -> SourceKind? {
    let present = sources.filter { available.contains($0.kind) }
    let serving = present.filter { $0.serves <= metres }.min { $0.power < $1.power }
    return (serving ?? present.min { $0.serves < $1.serves })?.kind
  }

  package subscript(kind: SourceKind) -> SourceSpecification? { sources.first { $0.kind == kind } }

  func validate() throws(LocationError) {
    for source in sources {
      try check(source.serves, "metres that a source serves", within: 0.01...1e6)
      try check(source.typicalRadius, "typical radius in metres", within: 0.01...1e6)
      try check(source.power, "power in milliwatts", within: 0...1e6)
    }
  }
}
