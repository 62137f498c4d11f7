internal import COpportune

/// The CPUs that the process may use now, and their nodes.
final class Topology: Sendable {
  // Written in init only.
  private nonisolated(unsafe) let raw: UnsafeMutablePointer<opp_topology>

  /// Reads the topology with `read`: the machine's, or a test's. If that fails, the result is one CPU on one
  /// node.
  init(_ read: (UnsafeMutablePointer<opp_topology>) -> Int32 = { opp_topology_read($0) }) {
    raw = .allocate(capacity: 1)
    raw.initialize(to: opp_topology())
    if read(raw) != 0 {
      raw.pointee.cpu_count = 1
      raw.pointee.node_count = 1
    }
  }

  deinit { raw.deallocate() }

  /// How many workers may run at once: the number of usable CPUs, or the CPU quota if that is less.
  var width: Int { Int(opp_topology_width(raw)) }

  /// The number of CPUs that the process may use.
  var cpuCount: Int { Int(raw.pointee.cpu_count) }

  /// The number of nodes with at least one of these CPUs.
  var nodeCount: Int { Int(raw.pointee.node_count) }

  /// The CPU quota in thousandths of a CPU; 0 where there is none.
  var quotaMilli: UInt64 { raw.pointee.quota_milli }

  /// The node of the CPU on which the caller runs.
  var currentNode: UInt8 {
    let place = opp_topology_current(raw)
    guard place >= 0, raw.pointee.node_count > 1 else { return 0 }
    return withUnsafePointer(to: &raw.pointee.node_of) {
      $0.withMemoryRebound(to: UInt8.self, capacity: Int(OPP_MAX_CPUS)) { $0[Int(place)] }
    }
  }

  /// Calls `body` with the distances of all nodes from `node`; with nil where there is only one node.
  func withDistances<Result>(from node: UInt8, _ body: (UnsafePointer<UInt8>?) -> Result) -> Result {
    guard raw.pointee.node_count > 1 else { return body(nil) }
    return withUnsafePointer(to: &raw.pointee.distance) {
      $0.withMemoryRebound(to: UInt8.self, capacity: Int(OPP_MAX_NODES * OPP_MAX_NODES)) {
        body($0 + Int(node) * Int(OPP_MAX_NODES))
      }
    }
  }
}
