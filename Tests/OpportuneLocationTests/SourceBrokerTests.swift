import OpportuneApps
import TestSupport
import Testing

@testable import OpportuneLocation

@Suite(.bounded) struct SourceBrokerTests {
  private let all = Set(SourceKind.allCases)

  // R-LOC-07, R-LOC-08
  @Test func theTableSaysWhichSourceServes() throws {
    let table = SourceTable.standard
    let usual: Set<SourceKind> = [.satellite, .wifi, .cell]
    #expect(table.source(for: 3000, among: usual) == .cell)
    #expect(table.source(for: 500, among: usual) == .wifi)
    #expect(table.source(for: 100, among: usual) == .satellite)
    #expect(table.source(for: 100, among: all) == .beacon)
    // What cannot be served gets the best there is.
    #expect(table.source(for: 100, among: [.cell, .wifi]) == .wifi)
    #expect(table.source(for: 100, among: []) == nil)
    // It is data.
    let other = SourceTable([SourceSpecification(.wifi, serves: 5, typicalRadius: 5, power: 1)])
    #expect(other.source(for: 100, among: usual) == .wifi)
    var policy = LocationPolicy()
    policy.sources = SourceTable([SourceSpecification(.wifi, serves: 0, typicalRadius: 5, power: 1)])
    #expect(throws: LocationError.self) { try LocationSystem(policy: policy) }
  }

  // R-LOC-06, R-LOC-07
  @Test func theFinestDemandDecidesAndTheSourceStepsDown() {
    var broker = SourceBroker(table: .standard, available: [.satellite, .wifi, .cell])
    let apps = (0..<3).map(AppID.init)
    #expect(
      broker.demand([apps[0]: 3000, apps[1]: 500, apps[2]: 100], at: .zero) && broker.running == .satellite)
    #expect(broker.demand([apps[0]: 3000, apps[1]: 500], at: .seconds(10)) && broker.running == .wifi)
    #expect(!broker.demand([apps[1]: 500], at: .seconds(20)) && broker.running == .wifi)
    #expect(broker.demand([apps[0]: 3000], at: .seconds(30)) && broker.running == .cell)
    #expect(broker.demand([:], at: .seconds(40)) && broker.running == nil)
    // A source that goes away is replaced.
    #expect(broker.demand([apps[0]: 100], at: .seconds(50)) && broker.running == .satellite)
    #expect(broker.setAvailable(.satellite, false, at: .seconds(60)) && broker.running == .wifi)
    #expect(broker.setAvailable(.satellite, true, at: .seconds(70)) && broker.running == .satellite)
  }

  // R-LOC-06, R-LOC-08
  @Test func whoAsksForTheFinestPays() throws {
    var broker = SourceBroker(table: .standard, available: [.satellite, .wifi, .cell])
    let apps = (0..<3).map(AppID.init)
    _ = broker.demand([apps[0]: 3000, apps[1]: 10, apps[2]: 10], at: .zero)
    broker.count(try fix(place(0, 0), at: 1))
    _ = broker.demand([apps[0]: 3000], at: .seconds(100))
    broker.account(until: .seconds(160))
    let power = try #require(SourceTable.standard[.satellite]).power
    #expect(broker.costs[apps[0]]?[.satellite] == SourceBroker.Cost(seconds: 100, fixes: 1, millijoules: 0))
    for app in apps[1...] {
      #expect(
        broker.costs[app]?[.satellite] == SourceBroker.Cost(seconds: 100, fixes: 1, millijoules: power * 50))
      #expect(broker.costs[app]?[.cell] == nil)
    }
    #expect(broker.costs[apps[0]]?[.cell]?.seconds == 60 && broker.costs[apps[0]]?[.cell]?.millijoules == 300)
  }
}
