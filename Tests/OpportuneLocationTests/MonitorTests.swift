import Foundation
import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

/// The reports of a monitor while fixes arrive.
struct MonitorRig {
  var monitor: RegionMonitor
  var told: [Crossing] = []
  var time = 0.0

  init(_ change: (inout MonitorPolicy) -> Void = { _ in }) throws {
    var policy = MonitorPolicy()
    change(&policy)
    monitor = try RegionMonitor(policy: policy)
  }

  mutating func add(_ region: Region) throws -> FenceID { try monitor.add(Fence(region)) }

  mutating func see(
    _ place: Coordinate, deviation: Double = 5, times: Int = 1, every seconds: Double = 10,
    altitude: Double? = nil
  ) throws {
    for _ in 0..<times {
      time += seconds
      let height = try altitude.map { try Fix.Altitude(metres: $0, standardDeviation: 5) }
      told += monitor.update(try fix(place, deviation: deviation, at: time, altitude: height))
    }
  }

  var kinds: [Crossing.Kind] { told.map(\.kind) }
}

@Suite(.bounded) struct MonitorTests {
  // R-GEO-01
  @Test func crossingsAreToldOnce() throws {
    var rig = try MonitorRig()
    let centre = try place(48, 11)
    let fence = try rig.add(.circle(centre, radius: 100))
    #expect(rig.monitor.state(of: fence) == .unknown)
    try rig.see(moved(centre, east: 500, north: 0), times: 5)
    #expect(rig.monitor.state(of: fence) == .outside && rig.told.isEmpty)
    try rig.see(centre, times: 5)
    #expect(rig.kinds == [.enter] && rig.told[0].fence == fence && rig.told[0].confidence >= 0.99)
    try rig.see(moved(centre, east: 300, north: 300), times: 5)
    #expect(rig.kinds == [.enter, .exit] && !rig.told[1].isInitial)
  }

  // R-GEO-01
  @Test func aPoorFixDoesNotFireASmallFence() throws {
    var rig = try MonitorRig()
    let centre = try place(48, 11)
    let fence = try rig.add(.circle(centre, radius: 100))
    let poor = try Accuracy.radius(200).standardDeviation
    try rig.see(moved(centre, east: 2000, north: 0), deviation: 20, times: 3, every: 30)
    try rig.see(centre, deviation: poor, times: 500)
    #expect(rig.told.isEmpty)
    try rig.see(centre, deviation: 10, times: 3)
    #expect(rig.kinds == [.enter])
    // And they do not take one out, wherever they are that being inside still explains.
    try rig.see(moved(centre, east: 60, north: 0), deviation: poor, times: 500)
    #expect(rig.kinds == [.enter] && rig.monitor.state(of: fence) == .inside)
  }

  // R-GEO-01
  @Test func teleportsAreRejectedUnlessTheyLast() throws {
    for agreeing in [2, 3, 6] {
      var rig = try MonitorRig { $0.agreeing = agreeing }
      let home = try place(48, 11)
      let far = moved(home, east: 50_000, north: 0)
      let fence = try rig.add(.circle(home, radius: 100))
      try rig.see(home, times: 5)
      #expect(rig.monitor.state(of: fence) == .inside)
      for _ in 0..<20 {
        try rig.see(far, times: agreeing - 1)
        #expect(rig.monitor.lastVerdict == .outlier)
        try rig.see(home)
      }
      #expect(rig.told.isEmpty && rig.monitor.statistics.outliers == 20 * (agreeing - 1))
      try rig.see(far, times: agreeing)
      #expect(rig.kinds == [.exit], "\(agreeing)")
    }
    // The limits are settings.
    var fast = try MonitorRig { ($0.fastest, $0.acceleration) = (10_000, 10_000) }
    _ = try fast.add(.circle(place(48, 11), radius: 100))
    try fast.see(place(48, 11))
    try fast.see(moved(place(48, 11), east: 50_000, north: 0))
    #expect(fast.kinds == [.exit])
  }

  /// From its gate to its cruise by 2 m/s each second, or from cruise on, seen every so many seconds.
  // R-GEO-01
  @Test(arguments: [1.0, 10, 60, 300]) func aFlightIsNoOutlier(every seconds: Double) throws {
    let gate = try place(50, 8)
    func flight(from start: Double) throws -> MonitorRig {
      var rig = try MonitorRig()
      _ = try rig.add(.circle(moved(gate, east: 500_000, north: 0), radius: 30_000))
      for moment in stride(from: start, to: 3600, by: seconds) {
        let metres = moment < 125 ? moment * moment : 125 * 125 + (moment - 125) * 250
        try rig.see(moved(gate, east: metres, north: 0), every: seconds)
      }
      return rig
    }
    let whole = try flight(from: 0)
    #expect(whole.monitor.statistics.outliers == 0 && whole.kinds == [.enter, .exit])
    // Nothing says how fast it goes until three agree; what is that far apart says it at once.
    let late = try flight(from: 600)
    #expect(late.monitor.statistics.outliers <= 2 && late.kinds == [.enter, .exit])
  }

  // R-GEO-01
  @Test func oneFixThatACarCannotHaveDoneIsAnOutlier() throws {
    // Thirty metres a second; a leap of 300 m at once is nothing for an aeroplane.
    for (seconds, metres) in [(1.0, 300.0), (5, 1000), (10, 1500), (20, 3000)] {
      var rig = try MonitorRig()
      let start = try place(50, 8)
      for step in 0..<100 {
        try rig.see(
          moved(start, east: Double(step) * 30 * seconds, north: step % 10 == 9 ? metres : 0), every: seconds)
        #expect(rig.monitor.lastVerdict == (step % 10 == 9 ? .outlier : .used), "\(seconds) s, \(step)")
      }
    }
  }

  // R-GEO-01
  @Test func whereARunOfFixesComesFromIsNotTheLastGoodOne() throws {
    var rig = try MonitorRig { $0.wander = 5 }
    let home = try place(48, 11)
    _ = try rig.add(.circle(moved(home, east: 25_000, north: 0), radius: 1000))
    try rig.see(home, times: 5)
    // Not as fast as from there, and by no way through what lies between.
    for step in 0..<5 { try rig.see(moved(home, east: 50_000 + Double(step) * 100, north: 0)) }
    #expect(rig.told.isEmpty && rig.monitor.statistics.outliers == 2)
    #expect(abs(try #require(rig.monitor.track.velocity).length - 10) < 0.1)
    try rig.see(moved(home, east: 52_500, north: 0))
    #expect(rig.monitor.lastVerdict == .outlier)
  }

  // R-GEO-01
  @Test func confidenceAndHysteresisAreSettings() throws {
    // Fixes that make inside 98.6 % probable: one is enough for a confidence of 0.8, for others it takes
    // more.
    let centre = try place(48, 11)
    func fixesUntilEntry(_ change: (inout MonitorPolicy) -> Void) throws -> Int {
      var rig = try MonitorRig(change)
      _ = try rig.add(.circle(centre, radius: 1000))
      try rig.see(moved(centre, east: 1500, north: 0), deviation: 10, times: 10)
      var count = 0
      while rig.told.isEmpty, count < 1000 {
        count += 1
        try rig.see(moved(centre, east: 978, north: 0), deviation: 10)
      }
      return count
    }
    let bold = try fixesUntilEntry { $0.confidence = 0.8 }
    let usual = try fixesUntilEntry { _ in }
    let stubborn = try fixesUntilEntry { $0.stay = .seconds(36_000) }
    let slow = try fixesUntilEntry { $0.correlation = .seconds(600) }
    #expect(
      bold == 1 && usual > bold && stubborn > usual && slow > usual, "\(bold) \(usual) \(stubborn) \(slow)")
  }

  // R-GEO-01
  @Test func policiesOutOfRangeAreRefused() throws {
    let changes: [(inout MonitorPolicy) -> Void] = [
      { $0.confidence = 0.4 }, { $0.stay = .zero }, { $0.correlation = .seconds(-1) }, { $0.fastest = 0 },
      { $0.acceleration = -1 },
      { $0.agreeing = 1 }, { $0.maximumFences = 0 }, { $0.confidence = .nan },
    ]
    for change in changes { #expect(throws: LocationError.self) { try MonitorRig(change) } }
    var rig = try MonitorRig { $0.maximumFences = 1 }
    _ = try rig.add(.circle(place(0, 0), radius: 10))
    #expect(throws: LocationError(.tooManyFences(limit: 1))) { try rig.add(.circle(place(0, 0), radius: 10)) }
  }

  // R-GEO-01, R-GEO-05
  @Test func theAntimeridianIsCrossedLikeAnyLine() throws {
    var rig = try MonitorRig()
    _ = try rig.add(.polygon([box(179.99, -0.01, -179.99, 0.01)]))
    let start = try place(0, 179.96)
    for step in 0...80 { try rig.see(moved(start, east: Double(step) * 100, north: 0)) }
    #expect(rig.kinds == [.enter, .exit])
  }

  // R-GEO-01, R-GEO-05
  @Test func theWayOverAPoleIsAWay() throws {
    var rig = try MonitorRig()
    let circle = try rig.add(.circle(place(90, 0), radius: 1000))
    let cap = try rig.add(.polygon([ring(stride(from: -180.0, to: 180, by: 10).map { ($0, 89.97) })]))
    // Up one meridian and down the other.
    for step in -100...100 {
      let metres = Double(step) * 100
      try rig.see(Ellipsoid.place(from: place(90, 0), azimuth: metres < 0 ? 100 : 280, metres: abs(metres)))
    }
    #expect(rig.told.filter { $0.fence == circle }.map(\.kind) == [.enter, .exit])
    #expect(rig.told.filter { $0.fence == cap }.map(\.kind) == [.enter, .exit])
  }

  // R-GEO-01, R-GEO-05
  @Test func aHoleIsOutside() throws {
    var rig = try MonitorRig()
    let fence = try rig.add(.polygon([box(0, 0, 0.03, 0.03), box(0.01, 0.01, 0.02, 0.02)]))
    for step in -20...70 { try rig.see(place(0.015, Double(step) * 0.000_8)) }
    #expect(rig.kinds == [.enter, .exit, .enter, .exit] && rig.monitor.state(of: fence) == .outside)
  }

  // R-GEO-01, R-GEO-05
  @Test func altitudesAreCrossedInPlace() throws {
    var rig = try MonitorRig()
    let centre = try place(47, 10)
    let fence = try rig.add(.circle(centre, radius: 500, altitude: 1000...2000))
    for metres in stride(from: 500.0, through: 2500, by: 50) { try rig.see(centre, altitude: metres) }
    #expect(rig.kinds == [.enter, .exit])
    // A fix without an altitude decides nothing.
    try rig.see(centre, times: 20)
    #expect(rig.kinds.count == 2 && rig.monitor.state(of: fence) == .outside)
  }

  // R-GEO-01
  @Test func grazingPassesFireOnlyWhenTheyGoIn() throws {
    let centre = try place(48, 11)
    for (offset, enters) in [(160.0, false), (120, false), (40, true), (0, true)] {
      var rig = try MonitorRig()
      var errors = NormalErrors(seed: UInt64(offset))
      _ = try rig.add(.circle(centre, radius: 100))
      for step in -50...50 {
        let (east, north) = errors.pair()
        try rig.see(
          moved(centre, east: Double(step) * 10 + 5 * east, north: offset + 5 * north), deviation: 5, every: 1
        )
      }
      #expect(rig.kinds == (enters ? [.enter, .exit] : []), "\(offset)")
    }
  }

  // R-GEO-01
  @Test func theInitialStateIsToldWhereThatIsAsked() throws {
    for reports in [true, false] {
      var rig = try MonitorRig()
      let centre = try place(48, 11)
      let around = try rig.monitor.add(Fence(.circle(centre, radius: 500), reportsInitialState: reports))
      let beside = try rig.monitor.add(
        Fence(.circle(moved(centre, east: 9000, north: 0), radius: 500), reportsInitialState: reports))
      try rig.see(centre)
      #expect(rig.monitor.state(of: around) == .inside && rig.monitor.state(of: beside) == .outside)
      #expect(rig.told.count == (reports ? 2 : 0) && rig.told.allSatisfy { $0.isInitial })
    }
  }

  // R-GEO-01
  @Test func staysAreToldAndCutShortByLeaving() throws {
    var rig = try MonitorRig()
    let centre = try place(48, 11)
    let outside = moved(centre, east: 400, north: 0)
    _ = try rig.monitor.add(Fence(.circle(centre, radius: 100), dwell: .seconds(300)))
    try rig.see(outside, times: 3)
    try rig.see(centre, times: 3)
    #expect(rig.kinds == [.enter])
    let deadline = rig.monitor.nextDeadline
    let due = try #require(deadline)
    #expect(due == rig.told[0].at + .seconds(300))
    try rig.see(outside, times: 3)
    let afterwards = rig.monitor.nextDeadline
    #expect(rig.kinds == [.enter, .exit] && afterwards == nil)
    let nothing = try rig.monitor.advance(to: due)
    #expect(nothing.isEmpty)
    rig.time = due.seconds
    try rig.see(centre, times: 3)
    let second = rig.monitor.nextDeadline
    let dwelt = try rig.monitor.advance(to: #require(second))
    let last = rig.monitor.nextDeadline
    #expect(dwelt.map(\.kind) == [.dwell] && last == nil)
    #expect(throws: LocationError(.clockWentBack)) { try rig.monitor.advance(to: .zero) }
  }

  // R-GEO-08
  @Test func fencesEndWhenTheyExpireOrAreStopped() throws {
    var rig = try MonitorRig()
    let centre = try place(48, 11)
    let expiring = try rig.monitor.add(Fence(.circle(centre, radius: 100), expiry: .seconds(100)))
    let stopped = try rig.add(.circle(centre, radius: 100))
    try rig.monitor.remove(stopped)
    #expect(rig.monitor.state(of: stopped) == nil)
    #expect(throws: LocationError(.unknownFence(stopped))) { try rig.monitor.remove(stopped) }
    // Its place is used again, its name is not.
    let again = try rig.add(.circle(centre, radius: 100))
    #expect(again != stopped && rig.monitor.state(of: stopped) == nil && rig.monitor.count == 2)
    try rig.see(centre, every: 200)
    #expect(
      rig.told == [
        Crossing(fence: expiring, kind: .expired, at: .seconds(100), confidence: 1, isInitial: false)
      ])
    #expect(rig.monitor.count == 1 && rig.monitor.state(of: again) == .inside)
  }

  // R-GEO-01
  @Test func aFixFromThePastIsLeftOut() throws {
    var rig = try MonitorRig()
    _ = try rig.add(.circle(place(0, 0), radius: 100))
    try rig.see(place(0, 0), every: 50)
    #expect(rig.monitor.lastVerdict == .used)
    rig.time = 10
    try rig.see(place(1, 1))
    #expect(rig.monitor.lastVerdict == .old && rig.monitor.now == .seconds(50) && rig.told.isEmpty)
  }
}
