import Opportune
import OpportuneBase

/// What `opportune bench serve` is to run, checked.
package struct ServeOptions: Sendable {
  package let contenders: [ServeContender]
  let loads: [ServePlan.Load]
  /// Seconds of every contender under each load, all repeats together.
  package let seconds: Double
  package let repeats: Int
  /// Connections of typists.
  let connections: Int
  /// Heavy requests at once.
  let heavy: Int
  let files: FileAccess
  let sockets: ServeAddress.Kind
  /// What a server may have of memory, in MiB.
  let serverMebibytes: Int
  package let trees: [String]
  /// Where the index and the documents are made, and gone with the run.
  package let folder: String
  /// SwiftNIO's server, `ServeRival`.
  package let nioRival: String?
  /// Of the program, and its commit, as it prints them; for the report.
  let version: String

  /// What a server keeps for blocks, of its memory.
  static let cacheBytes = 16 << 20
  package static let windowSecondsMin = 0.5

  package init(
    contenders: [String] = [], loads: [String] = [], seconds: Double = 120, repeats: Int = 5,
    connections: Int = 32, heavy: Int = 1, files: String = FileAccess.direct.rawValue,
    sockets: String = ServeAddress.Kind.unix.rawValue,
    serverMebibytes: Int = 192, trees: [String] = [], folder: String = "/var/tmp", nioRival: String? = nil,
    version: String = OpportuneBuild.description
  ) throws(BenchError) {
    self.seconds = try BenchError.check(seconds, "--seconds", 0.5...3600)
    self.repeats = try BenchError.check(repeats, "--repeats", 1...100)
    try BenchError.checkWindow(seconds, repeats, least: Self.windowSecondsMin)
    self.connections = try BenchError.check(connections, "--connections", 1...8192)
    self.heavy = try BenchError.check(heavy, "--heavy", 1...64)
    self.serverMebibytes = try BenchError.check(serverMebibytes, "--server-mebibytes", 64...65_536)
    self.folder = try BenchError.checkFolder(folder)
    guard let access = FileAccess(rawValue: files) else {
      throw .invalid(
        "--files", files, expected: FileAccess.allCases.map(\.rawValue).joined(separator: " or "))
    }
    guard let sockets = ServeAddress.Kind(rawValue: sockets) else {
      throw .invalid(
        "--sockets", sockets, expected: ServeAddress.Kind.allCases.map(\.rawValue).joined(separator: " or "))
    }
    self.contenders = try ServeContender.select(contenders, hasRival: nioRival != nil)
    for tree in trees { try Corpus.check(root: tree) }
    self.loads = try BenchError.figures(loads, of: "--load")
    self.files = access
    self.sockets = sockets
    self.trees = trees.isEmpty ? Corpus.defaultRoots : trees
    self.nioRival = nioRival
    self.version = version
  }

  /// What was asked beside the loads, for the report.
  var summary: String {
    let heavyOnes =
      heavy == 1 ? "a heavy request each second" : "\(heavy) heavy requests at once each \(heavy) s"
    let reads = files == .cached ? "through the page cache" : "from the device"
    let tcp = sockets == .tcp ? " over TCP" : ""
    return "\(connections) connections of typists\(tcp), \(heavyOnes); queries read the index \(reads)"
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
