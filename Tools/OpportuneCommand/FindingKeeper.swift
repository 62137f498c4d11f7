import Glibc
import OpportuneFuzz
import Synchronization

/// Writes a failure to a file as soon as it is found, so that neither a second Ctrl-C nor a closed terminal
/// loses it.
final class FindingKeeper: Sendable {
  private let seed: UInt64
  private let output: String?
  private let folders: [String]
  private let kept = Mutex<String?>(nil)

  /// - Parameters:
  ///   - output: the file; nil: one of the target's name and the seed in the first of `folders` where that
  ///     can be written.
  init(seed: UInt64, output: String?, folders: [String] = [".", "/tmp"]) {
    self.seed = seed
    self.output = output
    self.folders = folders
  }

  /// Where the failure stands, or nil where no file could be written.
  var path: String? { kept.withLock { $0 } }

  /// Writes it, over what the same failure was before it was made smaller.
  func keep(_ finding: Finding) {
    let name = "opportune-fuzz-\(finding.target)-\(seed).example"
    kept.withLock { kept in
      if let output {
        kept = (try? write(finding.example, to: output)) == nil ? nil : output
        return
      }
      // Names that anybody can guess, in folders that others write to as well.
      let paths = kept.map { [$0] } ?? folders.map { $0 == "." ? name : "\($0)/\(name)" }
      kept = paths.first { (try? replaceFile($0, by: finding.example, name: $0)) != nil }
    }
  }
}
