import Glibc
import OpportuneBase

/// What runs behind the program in front: real programs that know nothing of it.
package enum HostLoad: String, Sendable, CaseIterable {
  /// A large C file compiled by four compilers at a time, over and over.
  case compile
  /// `stress-ng`, which writes and checks memory.
  case memory
  /// `stress-ng`, which writes, reads and synchronises files.
  case disk
  /// Both of it at once.
  case both = "memory-and-disk"

  var program: String { self == .compile ? "gcc" : "stress-ng" }

  /// Begins it.
  ///
  /// - Parameters:
  ///   - prefix: what stands before its words.
  ///   - folder: empty; for its files.
  func start(_ prefix: [String], in folder: String) throws -> RunningLoad {
    let words: [String]
    switch self {
    case .compile:
      try Self.writeSource(to: "\(folder)/large.c")
      let loop = "while gcc -O2 -c large.c -o \"$1.o\"; do echo done >> \"$1.count\"; done"
      let all = "cd '\(folder)' && for i in 1 2 3 4; do sh -c '\(loop)' sh $i & done; wait"
      words = ["sh", "-c", all]
    case .memory: words = Self.stress(["--vm", "2"] + Self.memoryWords, folder)
    case .disk: words = Self.stress(Self.diskWords, folder)
    case .both: words = Self.stress(["--vm", "1"] + Self.memoryWords + Self.diskWords, folder)
    }
    return RunningLoad(self, folder, try HostedProgram(prefix + words))
  }

  private static let memoryWords = ["--vm-bytes", "256M", "--vm-keep"]
  /// Past the page cache.
  private static let diskWords = ["--hdd", "1", "--hdd-bytes", "128M", "--hdd-opts", "direct"]

  private static func stress(_ stressors: [String], _ folder: String) -> [String] {
    ["stress-ng"] + stressors + ["--temp-path", folder, "--metrics-brief", "--yaml", "\(folder)/work.yaml"]
  }

  /// A quarter of a second of a compiler.
  private static func writeSource(to path: String) throws {
    var text = "#include <math.h>\n"
    for index in 0..<60 {
      text += """
        double f\(index)(double *a, int n) { double s = \(index); for (int i = 0; i < n; i++) {
          s += a[i] * sin(s) + (i % \(index % 7 + 2) ? a[n - 1 - i] : exp(a[i])); a[i] = s; } return s; }

        """
    }
    guard TextFile.create(text, at: path) else { throw BenchError.failed("'\(path)' was not written") }
  }
}

/// A load that runs.
final class RunningLoad {
  private let load: HostLoad
  private let folder: String
  private let program: HostedProgram

  fileprivate init(_ load: HostLoad, _ folder: String, _ program: HostedProgram) {
    self.load = load
    self.folder = folder
    self.program = program
  }

  /// Ends it, and counts what it has done: by the kind of work, files compiled or what `stress-ng` calls
  /// operations.
  func end() -> [String: Double] {
    guard load != .compile else {
      program.end()
      let lines = (1...4).map { TextFile.read("\(folder)/\($0).count")?.split(separator: "\n").count ?? 0 }
      return ["compile": Double(lines.reduce(0, +))]
    }
    // It counts what it has done when it is interrupted.
    program.end(SIGINT, within: 20)
    return Self.operations(TextFile.read("\(folder)/work.yaml") ?? "")
  }

  /// The `bogo-ops` of each stressor.
  static func operations(_ yaml: String) -> [String: Double] {
    var operations: [String: Double] = [:]
    var stressor = ""
    for line in yaml.split(separator: "\n") {
      let words = line.split(whereSeparator: { " :-".contains($0) })
      guard let key = words.first, let value = words.last, words.count > 1 else { continue }
      if key == "stressor" { stressor = String(value) }
      if key == "bogo", words.count == 3, words[1] == "ops", let count = Double(value) {
        operations[stressor] = count
      }
    }
    return operations
  }
}
