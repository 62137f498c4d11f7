import Foundation
import Opportune
import OpportuneReplay
import TestSupport
import Testing

@Suite(.bounded) struct PolicyComparisonTests {
  private func trace(_ name: String) throws -> Trace {
    try TraceReader.read(
      #require(Bundle.module.url(forResource: "Fixtures/\(name)", withExtension: "db")).path)
  }

  // R-MEM-09, R-MEM-04
  @Test(arguments: ["android-app-usage", "desktop-app-focus"])
  func theBudgetIsSweptUntilPoliciesDiffer(_ name: String) throws {
    let all = NamedPolicy.allCases
    let comparison = try PolicyComparison(trace(name), all, table: .ios, seed: 1)
    #expect(comparison.isFelt && comparison.differs && comparison.outcomes.map(\.policy) == all)
    #expect(zip(comparison.budgets, comparison.budgets.dropFirst()).allSatisfy { $0 > $1 })
    // One step before, nobody could tell.
    if let before = comparison.budgets.dropLast().last {
      #expect(try !PolicyComparison(trace(name), all, table: .ios, seed: 1, budget: before).isFelt)
    }
    for outcome in comparison.outcomes {
      #expect(outcome.removals.count == outcome.kills + outcome.hibernations)
      #expect((outcome.bytesWritten > 0) == (outcome.hibernations > 0))
      #expect(outcome.removals.allSatisfy { $0.reason.hasPrefix($0.app) && $0.reason.contains("because") })
    }
    let terminates = try #require(comparison.outcomes.last)
    #expect(terminates.policy == .terminate && terminates.hibernations == 0 && terminates.kills > 0)
    // With less, the same apps are wanted again: who is hibernated comes back without a cold start.
    let half = try PolicyComparison(
      trace(name), [.lru, .terminate], table: .ios, seed: 1, budget: #require(comparison.budgets.last) / 2)
    #expect(half.outcomes[1].coldStarts > half.outcomes[0].coldStarts && half.outcomes[0].reanimations > 0)
  }

  // R-MEM-09
  @Test func theSameSeedIsTheSameAndAnotherIsNot() throws {
    let trace = try trace("android-app-usage")
    let text = try [1, 1, 2].map {
      try PolicyComparison(trace, [.lru, .largest], table: .android, seed: $0).json()
    }
    #expect(text[0] == text[1] && text[0] != text[2])
  }

  // R-MEM-03, R-MEM-09
  @Test func onlyABudgetThatIsShortRemovesApps() throws {
    let trace = try trace("android-app-usage")
    let names = Set(
      trace.inputs.compactMap { row -> String? in if case .front(let app) = row.input { app } else { nil } })
    let total = names.map { FootprintTable.ios.draw($0, seed: 3) }.reduce(0, +)
    let ample = try PolicyComparison(trace, [.lru], table: .ios, seed: 3, budget: total * 100)
    let short = try PolicyComparison(trace, [.lru], table: .ios, seed: 3, budget: total / 4)
    #expect(ample.outcomes[0].removals.isEmpty && !short.outcomes[0].removals.isEmpty)
  }

  // R-MEM-09
  @Test func whereNobodyCouldTellTheSweepSaysHowFarItWent() throws {
    let trace = try trace("desktop-app-focus")
    for (policies, isFelt) in [([NamedPolicy.lru], false), ([.lru, .terminate], true)] {
      let text = try PolicyComparison(trace, policies, table: .ios, seed: 2).text()
      #expect(
        text.contains(" MB down to what the largest app needs\n") != isFelt
          && text.contains("were tried from"))
    }
  }

  // R-MEM-02
  @Test func budgetsAndPointsBeyondAllProportionAreTaken() throws {
    let trace = try trace("desktop-app-focus")
    var options = ReplayOptions()
    options.criticalPoint = try CriticalPoint(share: 1e-300)
    let tiny = try PolicyComparison(trace, [.lru], table: .ios, seed: 1, options: options)
    options.criticalPoint = try CriticalPoint(share: 1)
    let ample = try PolicyComparison(trace, [.lru], table: .ios, seed: 1, budget: .max, options: options)
    for comparison in [tiny, ample] { #expect(comparison.text().contains(" MB")) }
    #expect(ample.text().contains("budget 18446744073709.6 MB") && ample.outcomes[0].removals.isEmpty)
  }

  @Test func sizesComeFromTheTable() {
    for table in FootprintTable.all {
      #expect(table.bytes.count == 21 && table.bytes == table.bytes.sorted())
      let drawn = (0..<2000).map { table.draw("app \($0)", seed: 1) }.sorted()
      #expect(drawn[0] >= table.bytes[0] && drawn[1999] <= table.bytes[20])
      // The quartiles of what is drawn are within a step of the table's.
      for (share, place) in [(500, 5), (1000, 10), (1500, 15)] {
        #expect(drawn[share] > table.bytes[place - 1] && drawn[share] < table.bytes[place + 1])
      }
    }
  }

  @Test func whatHasNoSwitchesSaysSo() throws {
    let comparison = try PolicyComparison(trace("ios-screen-time"), [.lru], table: .ios, seed: 1)
    #expect(comparison.text().contains("nothing to compare") && !comparison.differs)
  }
}
