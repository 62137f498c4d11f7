import Glibc
import OpportuneFuzz
import Synchronization

/// Writes failures to files, one of each target, as soon as they are found, so that neither a second Ctrl-C
/// nor a closed terminal loses them.
final class FindingKeeper: Sendable {
  private let seed: UInt64
  private let output: String?
  private let folders: [String]
  private let kept = Mutex(Kept())

  private struct Kept {
    /// The first target that failed.
    var first: String?
    var paths: [String: String] = [:]
  }

  /// - Parameters:
  ///   - output: the file of the first failure; those of other targets have its name and theirs; nil: one
  ///     of the target's name and the seed in the first of `folders` where that can be written.
  init(seed: UInt64, output: String?, folders: [String] = [".", "/tmp"]) {
    self.seed = seed
    self.output = output
    self.folders = folders
  }

  /// Where the target's failure stands, or nil where no file could be written.
  func path(of target: String) -> String? { kept.withLock { $0.paths[target] } }

  /// Writes it, over what the same failure was before it was made smaller.
  func keep(_ finding: Finding) {
    let name = "opportune-fuzz-\(finding.target)-\(seed).example"
    kept.withLock { kept in
      let target = finding.target
      if let output {
        kept.first = kept.first ?? target
        let path = target == kept.first ? output : "\(output).\(target)"
        kept.paths[target] = (try? write(finding.example, to: path)) == nil ? nil : path
        return
      }
      // Names that anybody can guess, in folders that others write to as well.
      let paths = kept.paths[target].map { [$0] } ?? folders.map { $0 == "." ? name : "\($0)/\(name)" }
      kept.paths[target] = paths.first { (try? replaceFile($0, by: finding.example, name: $0)) != nil }
    }
  }
}
