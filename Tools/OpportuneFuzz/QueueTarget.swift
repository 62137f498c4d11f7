import COpportuneChecked
import COpportuneExplorer

/// A structure of the C core under test: its operations, and the judge of its guarantees.
///
/// `@unchecked Sendable`: it points to a constant of the C side.
package struct QueueTarget: FuzzTarget, @unchecked Sendable {
  let raw: UnsafePointer<oppx_target>

  /// What `--target` names it by.
  package var name: String { String(cString: raw.pointee.name) }

  /// Its invariants, in a sentence.
  package var summary: String { String(cString: raw.pointee.summary) }

  /// Whether it is fuzzed only when it is named: the canary, which must fail, and the explorer's own checks.
  package var isHidden: Bool { raw.pointee.hidden }

  /// Every target, in the order of a listing.
  package static let all: [QueueTarget] = {
    var count = 0
    let list = checked_targets(&count)
    return (0..<count).map { QueueTarget(raw: list[$0]) }.filter { $0.name != "litmus" }
  }()

  /// What the core's targets lack in this build; nil where nothing is missing.
  ///
  /// The compiler reports plain accesses by the flag by which it counts edges. A package that is depended on
  /// by a version may not have it.
  ///
  /// - Parameter edges: for tests; those that this program counts.
  package static func lack(edges: Int = coverage().edges) -> String? {
    guard edges == 0 else { return nil }
    return "This build sees no data races of plain accesses in the C core, and counts no edges; "
      + "one of Opportune's own repository does."
  }

  /// Whether its bug is a race of plain accesses, which not each build sees.
  package static func needsPlainAccesses(_ target: any FuzzTarget) -> Bool { target.name == "canary" }

  /// - Throws: ``FuzzError/unknownTarget(_:)``.
  package static func named(_ name: String) throws(FuzzError) -> QueueTarget {
    guard let target = all.first(where: { $0.name == name }) else {
      throw .unknownTarget(name, known: all.map(\.name))
    }
    return target
  }

  package func makeFuzzer() throws(FuzzError) -> any Fuzzer {
    QueueFuzzer(target: self, explorer: try Explorer())
  }
}

private final class QueueFuzzer: Fuzzer {
  private let target: QueueTarget
  private let explorer: Explorer

  init(target: QueueTarget, explorer: Explorer) {
    self.target = target
    self.explorer = explorer
  }

  func fuzz(
    seed: UInt64, first: UInt64, milliseconds: UInt64, executions: UInt64
  ) -> (figures: FuzzFigures, failed: Bool) {
    explorer.fuzz(target, seed: seed, first: first, milliseconds: milliseconds, executions: executions)
  }

  func shrunkFinding(milliseconds: UInt64) -> Finding {
    explorer.shrunkFinding(of: target, milliseconds: milliseconds)
  }

  func replay(_ example: String) throws(FuzzError) -> ExampleRun { try explorer.replay(example) }
}
