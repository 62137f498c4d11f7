import OpportuneApps
import Testing

@testable import OpportuneLocation

@Suite struct PathHistoryTests {
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
        samples.append(try fix(moved(start, east: x + 5 * error.0, north: y + 5 * error.1), at: Double(second)))
      }
    }
    let history = try PathHistory(samples.reversed(), wander: 3)
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
  }

  // R-SAMP-09
  @Test func fewerSamplesCostErrorThatIsKnown() throws {
    let start = try place(53.3, -6.25)
    let samples = try (0...10).map { try fix(moved(start, east: Double($0) * 600, north: 0), at: Double($0) * 60) }
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
