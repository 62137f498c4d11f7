import OpportuneApps
import OpportuneTraces
import TestSupport
import Testing

@testable import OpportuneLocation

@Suite(.bounded) struct PathHistoryTests {
  // R-SAMP-09
  @Test func theRebuiltWayIsAsFarOffAsItSays() throws {
    // A device that wanders as the history takes it to: how often the truth is within the stated 95 % radius.
    let start = try place(53.3, 179.999)
    var errors = NormalErrors(seed: 8)
    var (x, y) = (0.0, 0.0)
    var truth: [Coordinate] = []
    var samples: [Fix] = []
    for second in 0...6000 {
      let step = errors.pair()
      (x, y) = (x + 3 * step.0, y + 3 * step.1)
      truth.append(moved(start, east: x, north: y))
      if second % 60 == 0 {
        let error = errors.pair()
        samples.append(
          try fix(moved(start, east: x + 5 * error.0, north: y + 5 * error.1), at: Double(second)))
      }
    }
    let history = try PathHistory(samples.reversed(), wander: 3, sway: 0)
    var within = 0
    for second in 0...6000 {
      let found = try #require(history.position(at: .seconds(Double(second))))
      let radius = try Accuracy(standardDeviation: found.deviation).radius(confidence: 0.95)
      if Ellipsoid.distance(found.place, truth[second]) <= radius { within += 1 }
    }
    // 100 stretches whose errors hang together: a band about 0.95.
    #expect((0.90...0.985).contains(Double(within) / 6001), "\(Double(within) / 6001)")
    #expect(history.position(at: .seconds(6001)) == nil)
    let empty = try PathHistory([])
    #expect(empty.position(at: .zero) == nil)
    #expect(throws: LocationError.self) { try PathHistory([], wander: -1) }
    #expect(throws: LocationError.self) { try PathHistory([], sway: .nan) }
  }

  /// By defaults, on drives of which each second is known: a device does not wander at random there.
  // R-SAMP-09
  @Test(.enabled(if: TestData.has("gps-cells-drive"), TestData.absent), arguments: [20.0, 60, 120])
  func aDriveIsWithinWhatItsHistorySays(rest: Double) throws {
    var (within, all) = (0, 0)
    for name in ["B_2019.11.20_16.55.16", "B_2019.11.22_07.30.04", "B_2019.11.25_15.34.34"] {
      let data = try TestData.gunzipped("gps-cells-drive/\(name).csv.gz")
      let way = try LocationTrace.read(data).everySecond()
      var due = Moment.zero
      let history = try PathHistory(
        way.fixes.filter { fix in
          defer { if fix.time >= due { due = fix.time + .seconds(rest) } }
          return fix.time >= due
        })
      for fix in way.fixes {
        guard let found = history.position(at: fix.time) else { continue }
        all += 1
        let radius = try Accuracy(standardDeviation: found.deviation).radius(confidence: 0.95)
        if Ellipsoid.distance(found.place, fix.position) <= radius { within += 1 }
      }
    }
    #expect(all > 3000 && Double(within) >= 0.9 * Double(all), "\(within) of \(all)")
  }

  // R-SAMP-09
  @Test func fewerSamplesCostErrorThatIsKnown() throws {
    let start = try place(53.3, -6.25)
    let samples = try (0...10).map {
      try fix(moved(start, east: Double($0) * 600, north: 0), at: Double($0) * 60)
    }
    var last = 0.0
    for every in [1, 2, 5, 10] {
      let kept = samples.enumerated().filter { $0.offset % every == 0 }.map(\.element)
      let history = try PathHistory(kept)
      let half = try #require(history.position(at: .seconds(Double(every) * 30)))
      #expect(half.deviation > last)
      #expect(Ellipsoid.distance(half.place, moved(start, east: Double(every) * 300, north: 0)) < 1)
      last = half.deviation
    }
  }
}
