import Dispatch

/// Whether the fuzzer finds planted bugs: each canary has one, which must be found.
///
/// A run without findings is meaningful only if this holds, so `opportune fuzz` begins with it.
package enum SelfCheck {
  /// A canary and how long its bug took to find.
  package struct Result: Sendable, Equatable, Codable {
    package let target: String
    package let executions: UInt64
    package let seconds: Double
  }

  /// Fuzzes each canary on the caller's thread. Blocks for some milliseconds, if all is well.
  ///
  /// - Parameters:
  ///   - targets: those that are hidden are the canaries.
  ///   - seed: as for ``Fuzzer/fuzz(seed:milliseconds:executions:)``.
  ///   - milliseconds: for each canary, at most; above 0.
  /// - Throws: ``FuzzError/blind(_:seconds:)`` if a planted bug is not found, ``FuzzError/noMemory``.
  package static func run(
    of targets: [any FuzzTarget], seed: UInt64, milliseconds: UInt64 = 20_000
  ) throws(FuzzError) -> [Result] {
    var results: [Result] = []
    for target in targets where target.isHidden {
      let begun = DispatchTime.now().uptimeNanoseconds
      let (figures, failed) = try target.makeFuzzer().fuzz(
        seed: seed, milliseconds: milliseconds, executions: 0)
      let seconds = Double(DispatchTime.now().uptimeNanoseconds - begun) / 1e9
      guard failed else { throw .blind(target.name, seconds: seconds) }
      results.append(Result(target: target.name, executions: figures.executions, seconds: seconds))
    }
    return results
  }
}
