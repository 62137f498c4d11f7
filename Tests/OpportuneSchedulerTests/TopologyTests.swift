import COpportune
import TestSupport
import Testing

@testable import OpportuneScheduler

@Suite(.bounded) struct TopologyTests {
  /// A machine of two nodes, on which the first so many of this machine's CPUs are on the first.
  private func topology(onFirst count: Int) -> Topology {
    Topology {
      guard opp_topology_read($0) == 0 else { return -1 }
      $0.pointee.node_count = 2
      withUnsafeMutableBytes(of: &$0.pointee.node_of) { nodes in
        for place in 0..<nodes.count { nodes[place] = place < count ? 0 : 1 }
      }
      withUnsafeMutableBytes(of: &$0.pointee.distance) { distances in
        let width = Int(OPP_MAX_NODES)
        for (from, to) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
          distances[from * width + to] = UInt8(10 + 7 * from + to)
        }
      }
      return 0
    }
  }

  // R-SYS-03 R-CARD-01
  /// The caller may be on any CPU: all are on one node, or all on the other.
  @Test func aWorkerIsOfTheNodeOfItsCPU() {
    #expect(topology(onFirst: Int(OPP_MAX_CPUS)).currentNode == 0)
    #expect(topology(onFirst: 0).currentNode == 1)
  }

  // R-SYS-03 R-CARD-01
  @Test func distancesAreThoseOfTheNode() {
    for node in 0..<UInt8(2) {
      let seen = topology(onFirst: 0).withDistances(from: node) { $0.map { [$0[0], $0[1]] } }
      #expect(seen == [10 + 7 * node, 11 + 7 * node])
    }
    let one = Topology { _ in -1 }
    #expect(one.currentNode == 0 && one.withDistances(from: 0) { $0 == nil })
  }
}
