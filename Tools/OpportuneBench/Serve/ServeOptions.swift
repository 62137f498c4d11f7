import OpportuneBase

/// What `opportune bench serve` is to run, checked.
package struct ServeOptions: Sendable {
  package let contenders: [ServeContender]
  let loads: [ServePlan.Load]
  /// Seconds of every contender under each load, all repeats together.
  package let seconds: Double
  package let repeats: Int
  package let trees: [String]
  /// Where the index and the documents are made, and gone with the run.
  package let folder: String
  /// SwiftNIO's server, a program of `bench/`.
  package let nioRival: String?

  /// What a server may have of memory, and what of that is for blocks.
  static let memoryMebibytes = 192
  static let cacheBytes = 16 << 20
  package static let windowSecondsMin = 0.5

  package init(
    contenders: [String] = [], loads: [String] = [], seconds: Double = 120, repeats: Int = 5,
    trees: [String] = [], folder: String = "/var/tmp", nioRival: String? = nil
  ) throws(BenchError) {
    guard seconds.isFinite, (0.5...3600).contains(seconds) else {
      throw .invalid("--seconds", "\(seconds)", expected: "a number from 0.5 to 3600")
    }
    guard (1...100).contains(repeats) else {
      throw .invalid("--repeats", "\(repeats)", expected: "a whole number from 1 to 100")
    }
    guard seconds / Double(repeats) >= Self.windowSecondsMin else {
      throw .invalid(
        "--repeats", "\(repeats)",
        expected:
          "at most \(Int(seconds / Self.windowSecondsMin)) for --seconds \(seconds), so that a window "
          + "lasts at least \(Self.windowSecondsMin) s")
    }
    self.contenders = try ServeContender.select(contenders, hasRival: nioRival != nil)
    var chosen: [ServePlan.Load] = []
    for name in loads {
      guard let load = ServePlan.Load(rawValue: name) else {
        throw .invalid(
          "--load", name, expected: ServePlan.Load.allCases.map(\.rawValue).joined(separator: ", "))
      }
      chosen.append(load)
    }
    for tree in trees { try Corpus.check(root: tree) }
    self.loads = chosen.isEmpty ? ServePlan.Load.allCases : chosen
    self.seconds = seconds
    self.repeats = repeats
    self.trees = trees.isEmpty ? Corpus.defaultRoots : trees
    self.folder = folder
    self.nioRival = nioRival
  }

  package static var loadNames: [String] { ServePlan.Load.allCases.map(\.rawValue) }

  /// Seconds of one window.
  var secondsOfWindow: Double { seconds / Double(repeats) }

  /// Seconds that the windows take, all together. Reading the tree, starting servers, heavy requests on an
  /// idle machine and answers that come late come on top.
  package var secondsOfWindows: Double {
    seconds * Double(loads.count * contenders.count)
  }
}
