import Foundation
import Opportune
import OpportuneBase
import OpportuneLocation
import OpportuneTraces

/// What a fix costs among more and more fences, what fences take of memory, the geometry below; on recorded
/// tracks how many fixes the sampler takes, and how right crossings are.
///
/// It compares numbers of fences within one run. Places and fixes are the same each time.
package struct LocationBench: BlockingBench {
  package typealias Outcome = LocationBenchReport

  package let context: BenchContext<LocationBenchOptions>
  /// Run through ``LocationBenchOptions/trackFences`` fences.
  package var tracks: [RecordedTrack] = []
  /// Whose exits are compared with ours.
  package var logs: [PhoneLog] = []
  /// Where the device of the first track really was.
  package var reference: RecordedTrack?

  package init(_ context: BenchContext<LocationBenchOptions>) { self.context = context }

  /// Measures; takes seconds to minutes, on the calling thread.
  ///
  /// - Throws: ``BenchError`` where fences were not crossed alike in all repeats.
  package func measure() throws -> LocationBenchReport {
    var report = LocationBenchReport(machine: .current(), options: options)
    for figure in options.figures {
      if isInterrupted() { report.wasInterrupted = true }
      if report.wasInterrupted { break }
      switch figure {
      case .fixes:
        for count in options.fences {
          progress("\(options.fixes) fixes among \(count) fences")
          report.results += try drives(count, &report.wasInterrupted)
        }
      case .geometry: try geometry(&report)
      case .sampling, .history, .exits, .reference:
        report.results += try recorded(figure, &report.wasInterrupted)
      }
    }
    return report
  }

  private func geometry(_ report: inout LocationBenchReport) throws {
    progress("geometry")
    for (what, measure) in [
      ("distance over the ellipsoid", distance), ("polygon of 1000 corners, admitted", admission),
      ("polygon of 1000 corners, probability at its border", probability),
      ("circle, read from GeoJSON and watched", loading), ("corner of a polygon, read from GeoJSON", reading),
    ] {
      let times = try repeated(&report.wasInterrupted, measure)
      if !times.isEmpty { report.results.append(.init(what, median(times), .microseconds)) }
    }
  }

  private func recorded(
    _ figure: LocationBenchOptions.Figure, _ wasInterrupted: inout Bool
  ) throws -> [LocationBenchReport.Result] {
    switch figure {
    case .fixes, .geometry: return []
    case .sampling:
      return try sampling(&wasInterrupted)
    case .history: return try history(&wasInterrupted)
    case .exits:
      if !logs.isEmpty { progress("exits of \(logs.count) logs") }
      return try exits()
    case .reference:
      guard let reference, let track = tracks.first else { return [] }
      progress("\(track.name) against \(reference.name)")
      return try referenced(track, by: reference)
    }
  }

  private func repeated<Value>(_ wasInterrupted: inout Bool, _ body: () throws -> Value) rethrows -> [Value] {
    var values: [Value] = []
    for _ in 0..<options.repeats {
      if isInterrupted() { wasInterrupted = true }
      if wasInterrupted { break }
      values.append(try body())
    }
    return values
  }

  // MARK: Drives

  struct Drive: Sendable {
    var microseconds: Double
    /// With requests, permissions and the next sample's time.
    var throughSystem: Double
    var crossings: Int
    /// Fences looked at, over all fixes.
    var judged: Int
    var memory: Int
  }

  private func drives(_ count: Int, _ wasInterrupted: inout Bool) throws -> [LocationBenchReport.Result] {
    let circles = try Self.circles(count, radius: options.radius)
    let track = try Self.track(options.fixes)
    let drives = try repeated(&wasInterrupted) { try Self.drive(track, among: circles) }
    guard let first = drives.first else { return [] }
    for drive in drives where drive.crossings != first.crossings || drive.judged != first.judged {
      throw BenchError(
        .wrongAnswer,
        "\(drive.crossings) crossings after \(first.crossings) on the same drive among \(count) fences")
    }
    return [
      .init("a fix", fences: count, median(drives.map(\.microseconds)), .microseconds),
      .init("a fix through the system", fences: count, median(drives.map(\.throughSystem)), .microseconds),
      .init(
        "fences looked at for a fix", fences: count, Double(first.judged) / Double(options.fixes), .count),
      .init("crossings of the drive", fences: count, Double(first.crossings), .count),
      .init("memory of a fence", fences: count, Double(first.memory) / Double(count), .bytes),
    ]
  }

  /// The first fix finds all that is new, and is not timed.
  static func drive(_ track: [Fix], among circles: [Region]) throws -> Drive {
    var monitor = try RegionMonitor()
    for circle in circles { _ = try monitor.add(Fence(circle)) }
    _ = track.first.map { monitor.update($0) }
    var crossings = 0
    let start = SystemClock.now()
    for fix in track.dropFirst() { crossings += monitor.update(fix).count }
    let spent = elapsed(from: start, to: SystemClock.now())
    let through = try microsecondsThroughSystem(track, among: circles, crossings: crossings)
    return Drive(
      microseconds: Double(spent) / 1000 / Double(max(1, track.count - 1)), throughSystem: through,
      crossings: crossings, judged: monitor.statistics.judged, memory: monitor.memory)
  }

  /// The same by way of a system in which one app asks for all of the fences and may have them.
  private static func microsecondsThroughSystem(
    _ track: [Fix], among circles: [Region], crossings expected: Int
  ) throws -> Double {
    var system = try LocationSystem()
    let app = AppID(0)
    system.register(
      app, Manifest(identifier: "bench", usageDescriptions: [AuthorizationType.always.usageKey: "To measure"])
    )
    _ = try system.handle(.app(app, .setAuthorization(.allowed(.always))), at: .zero)
    for circle in circles { _ = try system.handle(.app(app, .start(.region(Fence(circle)))), at: .zero) }
    if let first = track.first { _ = try system.handle(.fix(first), at: first.time) }
    var delivered = 0
    let start = SystemClock.now()
    for fix in track.dropFirst() {
      for case .deliver in try system.handle(.fix(fix), at: fix.time) { delivered += 1 }
      _ = system.nextDeadline
    }
    let spent = elapsed(from: start, to: SystemClock.now())
    guard delivered == expected else {
      throw BenchError(.wrongAnswer, "\(delivered) crossings through the system, \(expected) of its monitor")
    }
    return Double(spent) / 1000 / Double(max(1, track.count - 1))
  }

  /// Circles scattered over 100 km by 100 km.
  static func circles(_ count: Int, radius: Double) throws -> [Region] {
    var random = SplitMix64(seed: 1)
    return try (0..<count).map { _ in
      let latitude = middle.latitude + Double.random(in: -0.45...0.45, using: &random)
      let longitude = middle.longitude + Double.random(in: -0.75...0.75, using: &random)
      return try .circle(Coordinate(latitude: latitude, longitude: longitude), radius: radius)
    }
  }

  /// 15 m a second along a spiral from the middle of the square outwards, so that few stretches are driven
  /// twice, and back at 40 km from the middle.
  static func track(_ fixes: Int) throws -> [Fix] {
    let accuracy = try Accuracy(standardDeviation: 5)
    // The way along a spiral with 250 m from turn to turn grows as the square of the angle.
    let spacing = 250 / (2 * Double.pi)
    let turn = 2 * 40_000 * 40_000 / spacing / 2 / 15
    return try (0..<fixes).map { second in
      let along = abs(Double(second).remainder(dividingBy: 2 * turn)) * 15
      let angle = (2 * along / spacing).squareRoot()
      let metres = spacing * angle
      return try Fix(
        Coordinate(
          latitude: middle.latitude + metres * cos(angle) / 111_000,
          longitude: middle.longitude + metres * sin(angle) / 66_500),
        accuracy: accuracy, speed: 15, time: .seconds(Double(second + 1)))
    }
  }

  // MARK: Geometry

  private func distance() throws -> Double {
    let from = try Self.place()
    let places = try (0..<1000).map {
      try Coordinate(latitude: from.latitude + Double($0) * 1e-4, longitude: from.longitude + 0.05)
    }
    var sum = 0.0
    let start = SystemClock.now()
    for _ in 0..<20 { for place in places { sum += Ellipsoid.distance(from, place) } }
    return try microseconds(since: start, of: 20 * places.count, sum)
  }

  private func admission() throws -> Double {
    let (corners, inside) = (try Self.corners(), try Self.place())
    var probe = 0.0
    let start = SystemClock.now()
    for _ in 0..<50 { probe += try Region.polygon([corners]).contains(inside) ? 1 : 0 }
    return try microseconds(since: start, of: 50, probe)
  }

  private func probability() throws -> Double {
    let corners = try Self.corners()
    let region = try Region.polygon([corners])
    let fixes = try corners.map { try Fix($0, accuracy: Accuracy(standardDeviation: 5), time: .zero) }
    var sum = 0.0
    let start = SystemClock.now()
    for fix in fixes { sum += region.probability(fix) ?? 0 }
    return try microseconds(since: start, of: fixes.count, sum)
  }

  /// Circles of 100 km over one another, so that no index tells them apart.
  private func loading() throws -> Double {
    let circles = try Self.circles(5000, radius: 100_000).map { NamedRegion("a circle", $0) }
    let text = Data(GeoJSON.text(circles).utf8)
    var monitor = try RegionMonitor()
    let start = SystemClock.now()
    for named in try GeoJSON.regions(text) { _ = try monitor.add(Fence(named.region)) }
    return try microseconds(since: start, of: circles.count, Double(monitor.count))
  }

  private func reading() throws -> Double {
    let corners = try Self.corners()
    let text = Data(GeoJSON.text([NamedRegion("a star", try .polygon([corners]))]).utf8)
    var read = 0
    let start = SystemClock.now()
    for _ in 0..<50 { read += try GeoJSON.regions(text).count }
    return try microseconds(since: start, of: 50 * corners.count, Double(read))
  }

  /// What was computed is used, so that the optimiser leaves it in.
  private func microseconds(since start: Nanoseconds, of count: Int, _ sum: Double) throws -> Double {
    let spent = elapsed(from: start, to: SystemClock.now())
    guard sum > 0 else { throw BenchError(.wrongAnswer, "the geometry answers 0 throughout") }
    return Double(spent) / 1000 / Double(count)
  }

  /// A star of twenty rays, about 1 km across.
  private static func corners() throws -> [Coordinate] {
    try (0..<1000).map { number in
      let angle = Double(number) / 1000 * 2 * .pi
      let radius = 0.01 * (1 + 0.2 * sin(angle * 20))
      return try Coordinate(
        latitude: middle.latitude + radius * cos(angle), longitude: middle.longitude + radius * sin(angle))
    }
  }

  private static let middle = (latitude: 53.3, longitude: -6.25)

  private static func place() throws -> Coordinate {
    try Coordinate(latitude: middle.latitude, longitude: middle.longitude)
  }
}
