import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

@Suite(.bounded) struct SamplingCycleTests {
  private func seen(_ seconds: Double, deviation: Double = 5) throws -> Fix {
    try fix(place(50, 8), deviation: deviation, at: seconds)
  }

  // R-SAMP-04, R-SAMP-05
  @Test func aLocationStopsUpdatesUntilTheTimerFires() throws {
    var policy = SamplingCycle.Policy()
    policy.rest = .seconds(60)
    var cycle = try SamplingCycle(policy: policy)
    #expect(try cycle.start(at: .seconds(1)) == [.startUpdates])
    for round in 0..<3 {
      let at = 2 + Double(round) * 60
      let first = try seen(at)
      #expect(try cycle.receive(first, at: .seconds(at)) == [.stopUpdates, .sample(first)])
      #expect(!cycle.isTracking && cycle.nextDeadline == .seconds(at + 60))
      // What comes while the timer waits is for others.
      #expect(try cycle.receive(seen(at + 30), at: .seconds(at + 30)).isEmpty && !cycle.isTracking)
      #expect(try cycle.advance(to: .seconds(at + 60)) == [.startUpdates])
    }
    #expect(cycle.collected.count == 3)
    #expect(try cycle.stop(at: .seconds(200)) == [.stopUpdates] && cycle.nextDeadline == nil)
    #expect(throws: LocationError(.clockWentBack)) { try cycle.advance(to: .seconds(1)) }
  }

  // R-SAMP-06
  @Test func aBoundedRunKeepsItsBestLocation() throws {
    var policy = SamplingCycle.Policy()
    policy.run = .seconds(10)
    var cycle = try SamplingCycle(policy: policy)
    _ = try cycle.start(at: .zero)
    let best = try seen(4, deviation: 3)
    #expect(try cycle.receive(seen(2, deviation: 50), at: .seconds(2)).isEmpty)
    #expect(try cycle.receive(best, at: .seconds(4)).isEmpty)
    #expect(try cycle.receive(seen(6, deviation: 20), at: .seconds(6)).isEmpty && cycle.isTracking)
    #expect(try cycle.advance(to: .seconds(12)) == [.stopUpdates, .sample(best)])
    #expect(cycle.nextDeadline == .seconds(132))
  }

  // R-SAMP-07
  @Test func whatWasCollectedIsHandedOutByATimerOfItsOwn() throws {
    var policy = SamplingCycle.Policy()
    policy.rest = .seconds(10)
    policy.processing = .seconds(100)
    var cycle = try SamplingCycle(policy: policy)
    var handed: [[Fix]] = []
    var effects = try cycle.start(at: .zero)
    for second in stride(from: 1.0, to: 250, by: 1) {
      effects += try cycle.receive(seen(second), at: .seconds(second))
    }
    for case .process(let fixes) in effects { handed.append(fixes) }
    #expect(handed.map(\.count) == [10, 10] && cycle.collected.count == 5)
  }

  // R-SAMP-04, R-SAMP-06, R-SAMP-07
  @Test func policiesOutOfRangeAreRefused() throws {
    let changes: [(inout SamplingCycle.Policy) -> Void] = [
      { $0.rest = .zero }, { $0.run = .zero }, { $0.processing = .zero },
    ]
    for change in changes {
      var policy = SamplingCycle.Policy()
      change(&policy)
      #expect(throws: LocationError.self) { try SamplingCycle(policy: policy) }
    }
  }
}
