import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

@Suite(.bounded) struct RequestTests {
  private func home() throws -> Coordinate { try place(53.3, -6.25) }

  // R-LOC-09, R-LOC-10
  @Test func standardUpdatesEndWithSuspensionAndRestartNothing() throws {
    var rig = try LocationRig()
    try rig.lives(.launch)
    try rig.allow(.always)
    try rig.does(.start(.standard(accuracy: 10)))
    #expect(rig.sources == [.satellite] && rig.indicators == [.solid])
    for step in 0..<3 {
      try rig.wait(1)
      try rig.see(moved(home(), east: Double(step) * 10, north: 0))
    }
    guard rig.notices().count == 3, case .update(_, let old, let new) = rig.notices()[2],
      case .update(_, _, let before) = rig.notices()[1]
    else {
      Issue.record("not three updates: \(rig.notices())")
      return
    }
    #expect(old == before && new != before)
    try rig.lives(.leave)
    try rig.wait(30)
    #expect(rig.host.system.state(of: rig.app) == .suspended)
    #expect(rig.log.contains { if case .ended(_, _, .suspended) = $0 { true } else { false } })
    #expect(rig.sources == [.satellite, nil] && rig.indicators == [.solid, .none])
    try rig.see(home())
    try rig.wait(60)
    #expect(rig.notices().count == 3 && rig.host.system.state(of: rig.app) == .suspended)
  }

  // R-LOC-09
  @Test func aFilterAndStoppingAreKept() throws {
    var rig = try LocationRig()
    try rig.lives(.launch)
    try rig.allow(.whenInUse)
    try rig.does(.start(.standard(accuracy: 10, filter: 100)))
    for step in 0..<10 {
      try rig.wait(1)
      try rig.see(moved(home(), east: Double(step) * 40, north: 0))
    }
    #expect(rig.notices().count == 4)
    let request = try #require(rig.lastRequest)
    try rig.does(.stop(request))
    try rig.wait(1)
    try rig.see(moved(home(), east: 1000, north: 0))
    #expect(rig.notices().count == 4 && rig.sources.last == .some(nil))
    #expect(throws: LocationSystemError(.unknownRequest(rig.app, request))) { try rig.does(.stop(request)) }
    #expect(throws: LocationSystemError.self) { try rig.does(.start(.standard(accuracy: -1))) }
  }

  // R-GEO-05, R-GEO-08
  @Test func severalStartAtOnceOrNone() throws {
    var rig = try LocationRig { $0.monitor.maximumFences = 3 }
    try rig.lives(.launch)
    let here = try home()
    let fences = try [0.0, 1000, 2000].map { east in
      try LocationRequest.region(Fence(.circle(moved(here, east: east, north: 0), radius: 100)))
    }
    let all = [fences[0], .standard(accuracy: 10), fences[1]]
    try rig.does(.startAll(all))
    #expect(
      rig.refusals() == [.notAuthorized, .notAuthorized, .notAuthorized] && rig.system.requests.isEmpty)
    try rig.allow(.always)
    let before = rig.log.count
    try rig.does(.startAll(all))
    // In their order, and what they come to is told once, behind them.
    let started = rig.log[before...].prefix(3).compactMap {
      if case .started(_, let request) = $0 { request } else { nil }
    }
    #expect(started.map { rig.system.requests[$0]?.request } == all && rig.system.monitor.count == 2)
    #expect(rig.sources == [.satellite] && rig.indicators == [.solid])
    // There is place for one more only.
    #expect(throws: LocationSystemError(.location(LocationError(.tooManyFences(limit: 3))))) {
      try rig.does(.startAll(fences))
    }
    #expect(throws: LocationSystemError.self) {
      try rig.does(.startAll([fences[2], .standard(accuracy: -1)]))
    }
    #expect(rig.system.requests.count == 3 && rig.system.monitor.count == 2)
    try rig.does(.startAll([fences[2]]))
    try rig.does(.startAll([]))
    #expect(rig.system.monitor.count == 3)
  }

  // R-LOC-09, R-GEO-01
  @Test(arguments: [false, true]) func outliersReachAppsOnlyWhereThePolicySaysSo(areDelivered: Bool) throws {
    var rig = try LocationRig {
      $0.deliversOutliers = areDelivered
      $0.monitor.agreeing = 3
    }
    try rig.lives(.launch)
    try rig.allow(.always)
    let far = try moved(home(), east: 50_000, north: 0)
    var requests: [String: RequestID] = [:]
    for (name, request) in try [
      ("standard", .standard(accuracy: 10)), ("tracking", .tracking(accuracy: 10)),
      ("significant", .significantChange(distance: 500)),
      ("region", .region(Fence(.circle(far, radius: 1000)))),
    ] as [(String, LocationRequest)] {
      try rig.does(.start(request))
      requests[name] = rig.lastRequest
    }
    /// The fixes that each request was given at a step, by what it is.
    func told(_ place: Coordinate) throws -> [String] {
      let start = rig.log.count
      try rig.wait(1)
      try rig.see(place)
      return rig.notices(from: start).compactMap { notice -> String? in
        switch notice {
        case .update(let request, _, let fix):
          fix.position == place ? requests.first { $0.value == request }?.key : "another place"
        case .significantChange: "significant"
        case .crossing: "region"
        case .monitoringFailed: "failed"
        }
      }.sorted()
    }
    #expect(try told(home()) == ["standard", "tracking"])
    for _ in 0..<2 {
      #expect(try told(far) == (areDelivered ? ["standard", "tracking"] : []))
      #expect(rig.system.monitor.lastVerdict == .outlier)
    }
    #expect(try told(home()) == ["standard", "tracking"])
    // What is right after all is for everyone.
    for _ in 0..<2 { #expect(try told(far) == (areDelivered ? ["standard", "tracking"] : [])) }
    #expect(try told(far) == ["region", "significant", "standard", "tracking"])
    // What is older than what is known is for nobody.
    let old = try fix(home(), at: rig.host.now.seconds - 1)
    let start = rig.log.count
    try rig.post(.fix(old))
    #expect(rig.notices(from: start).isEmpty && rig.system.monitor.lastVerdict == .old)
  }

  // R-LOC-10
  @Test func anUpdateOfAnAppLeavesItsRequests() throws {
    var rig = try LocationRig()
    try rig.lives(.launch)
    try rig.allow(.whenInUse)
    try rig.does(.start(.standard(accuracy: 10)))
    rig.system.register(rig.app, Manifest(identifier: "Maps 2", usageDescriptions: LocationRig.keys))
    #expect(rig.system.settings.map(\.identifier) == ["Maps 2"])
    try rig.wait(1)
    try rig.see(home())
    #expect(rig.notices().count == 1 && rig.system.authorization(of: rig.app) == .allowed(.whenInUse))
    try rig.lives(.leave)
    try rig.wait(60)
    #expect(rig.system.requests.isEmpty && rig.sources.last == .some(nil))
  }

  // R-LOC-09
  @Test func aFixFromTheFutureIsRefusedAndForgotten() throws {
    var rig = try LocationRig()
    try rig.allow(.always)
    try rig.does(.start(.region(Fence(.circle(home(), radius: 100)))))
    try rig.see(moved(home(), east: 1000, north: 0))
    let late = try fix(home(), at: 1e9)
    #expect(
      throws: LocationSystemError(.location(LocationError(.outOfRange("time of the fix in seconds", 0...0))))
    ) {
      try rig.post(.fix(late))
    }
    for _ in 0..<3 {
      try rig.wait(10)
      try rig.see(home())
    }
    #expect(rig.notices().map(\.crossing) == [.enter])
  }

  // R-LOC-03, R-LOC-04, R-LOC-10
  @Test func trackingKeepsAnAppInBackgroundUntilItEnds() throws {
    var rig = try LocationRig()
    try rig.lives(.launch)
    try rig.allow(.always)
    try rig.does(.start(.tracking(accuracy: 10)))
    let request = try #require(rig.lastRequest)
    try rig.lives(.leave)
    try rig.wait(3600)
    #expect(rig.host.system.state(of: rig.app) == .background)
    try rig.see(home())
    #expect(rig.notices().count == 1)
    try rig.does(.stop(request))
    try rig.wait(30)
    #expect(rig.host.system.state(of: rig.app) == .suspended)
  }

  // R-LOC-10
  @Test func trackingNeedsTheModeAndAnAppThatExecutes() throws {
    var rig = try LocationRig([Manifest(identifier: "Maps", usageDescriptions: LocationRig.keys)])
    try rig.allow(.always)
    try rig.does(.start(.standard(accuracy: 10)))
    try rig.lives(.launch)
    try rig.does(.start(.tracking(accuracy: 10)))
    #expect(rig.refusals() == [.notExecuting, .missingMode])
  }

  // R-LOC-01, R-LOC-05, R-LOC-11, R-LOC-12, R-LOC-13
  @Test func aSignificantChangeReanimatesWithItsReason() throws {
    var rig = try LocationRig()
    try rig.lives(.launch)
    try rig.allow(.always)
    try rig.does(.start(.significantChange()))
    #expect(rig.sources == [.cell])
    try rig.lives(.terminate)
    try rig.wait(60)
    #expect(rig.host.system.state(of: rig.app)?.isInMemory == false)
    try rig.see(home())
    try rig.wait(10)
    try rig.see(moved(home(), east: 300, north: 0))
    #expect(rig.notices().isEmpty)
    for east in [2000.0, 4000] {
      try rig.wait(120)
      let start = rig.log.count
      try rig.see(moved(home(), east: east, north: 0))
      #expect(rig.notices(from: start).count == 1 && rig.host.system.state(of: rig.app) == .background)
    }
    #expect(rig.host.log.contains { $0.action == .launched(.location) })
    try rig.wait(120)
    #expect(rig.host.system.state(of: rig.app) == .suspended)
  }

  // R-LOC-02
  @Test func theUserTheAppOrThePolicySaysWhatIsSignificant() throws {
    let cases: [(policy: Double, app: Double?, user: Double?, expected: Double)] = [
      (800, nil, nil, 800), (800, 1500, nil, 1500), (800, 1500, 300, 300),
    ]
    for (policy, app, user, expected) in cases {
      var rig = try LocationRig { $0.significantDistance = policy }
      try rig.allow(.always)
      try rig.does(.setSignificantDistance(user))
      try rig.does(.start(.significantChange(distance: app)))
      try rig.see(home())
      var metres = 0.0
      while rig.notices().isEmpty, metres < 5000 {
        metres += 50
        try rig.wait(10)
        try rig.see(moved(home(), east: metres, north: 0))
      }
      #expect(metres > expected && metres <= expected + 100, "\(metres), not \(expected)")
    }
    var rig = try LocationRig()
    #expect(throws: LocationSystemError.self) { try rig.does(.setSignificantDistance(0)) }
  }

  // R-LOC-11
  @Test func aChangeOfCellIsSignificantWhateverTheDistance() throws {
    var rig = try LocationRig()
    try rig.allow(.always)
    try rig.does(.start(.significantChange()))
    try rig.post(.cell(1))
    try rig.see(home(), deviation: 200, source: .cell)
    try rig.wait(10)
    try rig.post(.cell(1))
    try rig.see(moved(home(), east: 50, north: 0), deviation: 200, source: .cell)
    #expect(rig.notices().isEmpty)
    try rig.wait(10)
    try rig.post(.cell(2))
    try rig.see(moved(home(), east: 100, north: 0), deviation: 200, source: .cell)
    #expect(rig.notices().count == 1)
  }

  // R-GEO-01, R-GEO-02, R-GEO-03, R-GEO-07, R-GEO-10, R-LOC-01
  @Test func crossingsReachAppsInEveryState() throws {
    for state in [LifecycleState.active, .background, .suspended, .hibernated, .notRunning] {
      var rig = try LocationRig()
      try rig.allow(.always)
      try rig.lives(.launch)
      try rig.does(.start(.region(Fence(.circle(home(), radius: 100)))))
      try rig.see(moved(home(), east: 2000, north: 0))
      if state != .active { try rig.lives(.leave) }
      if state != .active, state != .background { try rig.wait(60) }
      if state == .hibernated { try rig.lives(.hibernate) }
      if state == .notRunning { try rig.lives(.terminate) }
      try rig.wait(state == .active || state == .background ? 0.5 : 120)
      let start = rig.log.count
      for _ in 0..<20 where rig.notices().isEmpty {
        try rig.wait(1)
        try rig.see(home())
      }
      #expect(rig.notices(from: start).map(\.crossing) == [.enter], "\(state)")
      #expect(rig.host.system.state(of: rig.app)?.mayExecute == true, "\(state)")
    }
  }

  // R-LOC-06, R-LOC-07, R-LOC-14
  @Test func fencesFarAwayLeaveTheSourcesOff() throws {
    var rig = try LocationRig()
    try rig.allow(.always)
    try rig.does(.start(.region(Fence(.circle(home(), radius: 100)), accuracy: 20)))
    // Where it is, nobody knows yet.
    #expect(rig.sources == [.satellite] && rig.indicators == [.hollow])
    try rig.see(moved(home(), east: 50_000, north: 0))
    #expect(rig.sources == [.satellite, nil])
    let deadline = rig.system.nextDeadline
    let next = try #require(deadline)
    try rig.wait((next - rig.host.now).inSeconds)
    // At 50 km cells are good enough.
    #expect(rig.sources == [.satellite, nil, .cell])
    // A train, then a walk: the nearer, the finer.
    try rig.see(moved(home(), east: 6000, north: 0), source: .cell)
    try rig.wait(600)
    #expect(rig.sources.last == .wifi)
    try rig.see(moved(home(), east: 300, north: 0), source: .wifi)
    try rig.wait(600)
    #expect(rig.sources.last == .satellite)
  }

  // R-AUTH-25, R-GEO-09
  @Test func capabilitiesAreReported() throws {
    var rig = try LocationRig { $0.available = [.wifi] }
    #expect(rig.system.capabilities.sources == [.wifi] && rig.system.capabilities.canMonitorRegions)
    try rig.post(.available(.wifi, false))
    try rig.post(.enabled(false))
    #expect(
      !rig.system.capabilities.canMonitorRegions && !rig.system.capabilities.canMonitorSignificantChanges)
    #expect(!rig.system.capabilities.isEnabled)
    try rig.allow(.always)
    try rig.does(.start(.region(Fence(.circle(home(), radius: 100)))))
    #expect(rig.refusals() == [.disabled])
  }

  // R-GEO-08
  @Test func anExpiredFenceEndsItsRequest() throws {
    var rig = try LocationRig()
    try rig.allow(.always)
    try rig.does(.start(.region(Fence(.circle(home(), radius: 100), expiry: .seconds(50)))))
    try rig.wait(60)
    #expect(rig.log.contains { if case .ended(_, _, .expired) = $0 { true } else { false } })
    #expect(
      rig.system.monitor.count == 0 && rig.indicators == [.hollow, .none] && rig.sources.last == .some(nil))
  }

  // R-GEO-10
  @Test func whoExecutesIsToldThatFencesAreNotWatched() throws {
    var rig = try LocationRig { $0.available = [.satellite] }
    try rig.lives(.launch)
    try rig.allow(.always)
    try rig.does(.start(.region(Fence(.circle(home(), radius: 100)))))
    let request = try #require(rig.lastRequest)
    try rig.post(.available(.satellite, false))
    try rig.post(.available(.satellite, true))
    try rig.post(.enabled(false))
    #expect(rig.notices() == [.monitoringFailed(request, .noSource), .monitoringFailed(request, .disabled)])
    try rig.lives(.leave)
    try rig.wait(60)
    try rig.post(.enabled(true))
    try rig.post(.enabled(false))
    #expect(rig.notices().count == 2 && rig.host.system.state(of: rig.app) == .suspended)
  }

  // R-GEO-04
  @Test func fencesNeedTheModeWhereThatIsSo() throws {
    for needed in [false, true] {
      for modes in [Set<Manifest.Mode>(), [.location]] {
        let manifest = Manifest(
          identifier: "Maps", backgroundModes: modes, usageDescriptions: LocationRig.keys)
        var rig = try LocationRig([manifest]) { $0.fencesNeedMode = needed }
        try rig.allow(.always)
        try rig.does(.start(.region(Fence(.circle(home(), radius: 100)))))
        #expect(rig.refusals() == (needed && modes.isEmpty ? [.missingMode] : []))
      }
    }
  }
}
