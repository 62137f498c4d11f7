import COpportune
import Glibc
import TestSupport
import Testing

@testable import OpportuneMemory

@Suite(.bounded) struct PurgeOrderTests {
  private func candidate(_ standing: AppStanding, _ group: UInt32, _ born: UInt64, _ used: UInt64)
    -> PurgeOrder.Candidate
  { PurgeOrder.Candidate(standing: standing, group: group, born: born, used: used) }

  // R-MEM-05
  @Test(arguments: PurgeOrder.Age.allCases)
  func standingComesBeforeGroupBeforeAge(age: PurgeOrder.Age) {
    let inOrder: [PurgeOrder.Candidate] = [
      candidate(.suspended, 0, 8, 8), candidate(.suspended, 1, 0, 0), candidate(.background, 0, 1, 1),
      candidate(.background, 0, 2, 2), candidate(.background, 7, 0, 1), candidate(.audio, 0, 0, 0),
      candidate(.inactive, 0, 0, 0),
    ]
    let order = PurgeOrder(age: age)
    var generator = SplitMix64(seed: 6)
    for _ in 0..<100 {
      #expect(inOrder.shuffled(using: &generator).sorted(by: order.takes) == inOrder)
    }
  }

  // R-MEM-05
  @Test func ageIsWhatTheOptionSays() {
    let (first, second) = (candidate(.background, 0, 1, 20), candidate(.background, 0, 2, 10))
    #expect(PurgeOrder(age: .firstIn).takes(first, before: second))
    #expect(PurgeOrder(age: .leastRecentlyUsed).takes(second, before: first))
    let tie = candidate(.background, 0, 3, 10)
    #expect(PurgeOrder(age: .leastRecentlyUsed).takes(second, before: tie))
    #expect(AppStanding.allCases.filter { !PurgeOrder.mayTake(from: $0) } == [.active])
  }

  /// Regions of one page, in the order in which the broker takes them one by one.
  private func taken(_ broker: MemoryBroker, _ regions: [Purgeable<UInt8>]) -> [Int] {
    var order: [Int] = []
    while true {
      let before = regions.map(\.isPurged)
      guard broker.purge(1) > 0 else { return order }
      for (index, region) in regions.enumerated() where region.isPurged && !before[index] {
        order.append(index)
      }
    }
  }

  // R-MEM-05
  @Test func suspendedGivesBeforeBackgroundBeforeInactiveAndTheActiveAppNothing() throws {
    let broker = try makeBroker()
    let standings: [AppStanding] = [.active, .inactive, .background, .suspended]
    let regions = try standings.map { standing in
      let region = try broker.makeMemory(named: "\(standing)", standing: standing).purgeable(
        of: UInt8.self, count: 1)
      region.fill(1)
      return region
    }
    #expect(taken(broker, regions) == [3, 2, 1])
    #expect(regions[0].isAll(1) == true)
    #expect(broker.purges.regions == 3 && broker.purges.bytes == UInt64(3 * pageSize))
  }

  // R-MEM-05
  @Test func groupsAndFirstInDecideWithinAnApp() throws {
    let broker = try makeBroker { $0.order.age = .firstIn }
    let app = broker.makeMemory(named: "app", standing: .suspended)
    let regions = try [2, 0, 1, 0].map { try app.purgeable(of: UInt8.self, count: 1, group: $0) }
    regions[1].fill(1)
    #expect(taken(broker, regions) == [1, 3, 2, 0])
    // What is made again counts from then on.
    for index in [3, 1, 0, 2] { regions[index].fill(1) }
    #expect(taken(broker, regions) == [3, 1, 2, 0])
  }

  // R-MEM-05
  @Test func leastRecentlyUsedFollowsTheScopes() throws {
    let broker = try makeBroker { $0.order.age = .leastRecentlyUsed }
    let app = broker.makeMemory(named: "app", standing: .background)
    let regions = try (0..<4).map { _ in try app.purgeable(of: UInt8.self, count: 1) }
    for index in [2, 0, 3, 1] {
      // Until the kernel's clock of ticks has moved, by which uses are told apart.
      let before = regions[index].region.view.used_ns
      repeat { regions[index].fill(1) } while regions[index].region.view.used_ns == before
      let now = regions[index].region.view.used_ns
      repeat { regions[index].fill(1) } while regions[index].region.view.used_ns == now
    }
    #expect(taken(broker, regions) == [2, 0, 3, 1])
  }

  // R-MEM-05
  @Test func noMoreIsTakenThanIsNeeded() throws {
    let broker = try makeBroker()
    let app = broker.makeMemory(named: "app", standing: .suspended)
    let regions = try (0..<10).map { _ in try app.purgeable(of: UInt8.self, count: 2 * pageSize) }
    #expect(broker.purge(UInt64(pageSize) * 5) == UInt64(pageSize) * 6)
    #expect(regions.count { $0.isPurged } == 3)
    #expect(broker.purge(0) == 0)
    #expect(broker.purge(.max, mode: .lazy) == UInt64(pageSize) * 14)
    #expect(broker.ledger.lazy == UInt64(pageSize) * 14)
  }
}
