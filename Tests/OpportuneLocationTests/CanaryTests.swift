import Foundation
import OpportuneApps
import OpportuneTraces
import TestSupport
import Testing

@testable import OpportuneLocation

/// A unique place, and the search for it in everything that a host may print, log or include in a crash.
@Suite(.bounded) struct CanaryTests {
  private static func secret() throws -> Coordinate { try place(12.345678, 76.543219) }

  /// In degrees, radians and metres from the middle of the Earth, by their first digits.
  private static func canaries() throws -> [String] {
    let point = Point3(try secret())
    return ["12.345", "76.543", "0.21547", "1.33593"] + [point.x, point.y, point.z].map { "\(Int($0) / 10)" }
  }

  /// A host that has seen the place, told apps of it, woken them and alerted the user.
  static func rig() throws -> LocationRig {
    var rig = try LocationRig(
      [true, false].map {
        Manifest(identifier: "\($0)", backgroundModes: [.location], usageDescriptions: LocationRig.keys)
      })
    let polygon = try Region.polygon([ring([(76.543219, 12.345678), (77, 12), (77, 13)])])
    for app in 0...1 {
      try rig.lives(.launch, app)
      try rig.allow(app == 0 ? .always : .whenInUse, app)
      try rig.does(.start(.region(Fence(.circle(secret(), radius: 100)))), app)
      try rig.does(.start(.region(Fence(polygon))), app)
      try rig.does(.start(.significantChange()), app)
      // The other is not in use, and goes by way of an alert.
      if app == 0 { try rig.does(.start(.tracking(accuracy: 10)), app) }
    }
    try rig.lives(.leave, 1)
    try rig.see(moved(secret(), east: -5000, north: 0))
    for _ in 0..<3 {
      try rig.wait(60)
      try rig.see(secret())
    }
    try rig.post(.fix(fix(moved(secret(), east: 500_000, north: 0), at: rig.host.now.seconds + 0)))
    return rig
  }

  /// What is said of a polygon that is none.
  static func error() throws -> String {
    do {
      _ = try Region.polygon([ring([(76.543219, 12.345678), (77, 13), (77, 12.345678), (76.543219, 13)])])
      return ""
    } catch { return "\(error)" }
  }

  private static func printed(_ values: [Any]) -> String {
    values.map {
      var dumped = ""
      dump($0, to: &dumped)
      return "\($0)\n" + String(reflecting: $0) + dumped
    }.joined()
  }

  @Test func nothingThatAHostPrintsSaysWhere() throws {
    let rig = try Self.rig()
    #expect(rig.notices().contains { $0.crossing == .enter } && !rig.alerts.isEmpty)
    let trace = try LocationTrace.read(
      Data("time,latitude,longitude\n1,12.345678,76.543219\n2,12.345679,76.5432\n".utf8))
    let fences = [NamedRegion("a", try .circle(Self.secret(), radius: 50))]
    let report = try LocationReplay.run(trace, fences: fences)
    let text = Self.printed([
      rig.system, rig.system.monitor, rig.system.broker, rig.system.requests, rig.system.flows,
      rig.system.apps,
      rig.system.monitor.statistics, rig.system.broker.costs, rig.log, rig.host.log, rig.host, trace, fences,
      report,
      report.json(), report.text(), try PathHistory([fix(Self.secret(), at: 1)]),
      SourceUpdate.fix(try fix(Self.secret(), at: 1)),
    ])
    for canary in try Self.canaries() { #expect(!text.contains(canary), "\(canary)") }
    // The search finds what is there.
    let place = try Self.secret()
    #expect(
      try Self.canaries().allSatisfy { canary in
        let point = Point3(place)
        return
          "\(place.latitude) \(place.longitude) \(place.latitude.radians) \(place.longitude.radians) \(point.x) \(point.y) \(point.z)"
          .contains(canary)
      })
  }

  @Test func whatAHostSaysAsItCrashesSaysNotWhere() async throws {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let rig = try CanaryTests.rig()
      let error = try CanaryTests.error()
      fatalError("a crash with \(rig.system), \(rig.log), \(rig.host.log) and \(error)")
    }
    let text = String(decoding: try #require(result).standardErrorContent, as: UTF8.self)
    #expect(text.contains("a crash with a location system of 2 apps"))
    for canary in try Self.canaries() { #expect(!text.contains(canary), "\(canary)") }
  }

  // R-LOC-06
  @Test func aPlaceIsForgottenWhenNobodyAsksForIt() throws {
    let secret = try Self.secret()
    func started(_ requests: [LocationRequest]) throws -> LocationRig {
      var rig = try LocationRig()
      try rig.lives(.launch)
      try rig.allow(.always)
      for request in requests { try rig.does(.start(request)) }
      try rig.see(moved(secret, east: 5000, north: 0))
      try rig.wait(60)
      try rig.see(secret)
      #expect(rig.system.monitor.lastFix != nil)
      return rig
    }
    let circle = Fence(try .circle(secret, radius: 100))
    let all: [LocationRequest] = [.region(circle), .standard(accuracy: 10), .significantChange()]
    var stopped = try started(all)
    for request in stopped.system.requests.keys.sorted() {
      #expect(stopped.system.monitor.lastFix != nil)
      try stopped.does(.stop(request))
    }
    #expect(stopped.system.monitor.lastFix == nil && stopped.system.monitor.track.point == .zero)
    for event in [AppLocationEvent.setAuthorization(.denied), .reinstalled] {
      var rig = try started(all)
      try rig.does(event)
      #expect(rig.system.monitor.lastFix == nil && rig.system.requests.values.allSatisfy { $0.last == nil })
    }
    // On which side of a fence it was is known, so that what happened meanwhile comes out.
    var off = try started([.region(circle)])
    for _ in 0..<3 {
      try off.wait(30)
      try off.see(secret)
    }
    try off.post(.enabled(false))
    #expect(off.system.monitor.lastFix == nil)
    try off.post(.enabled(true))
    let before = off.notices().count
    for _ in 0..<3 {
      try off.wait(30)
      try off.see(moved(secret, east: 3000, north: 0))
    }
    #expect(off.notices().dropFirst(before).map(\.crossing) == [.exit])
  }
}
