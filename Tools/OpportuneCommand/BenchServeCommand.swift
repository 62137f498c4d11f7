import ArgumentParser
import OpportuneBench

struct BenchServeCommand: MeasuringCommand {
  typealias Measured = ServeBench

  static let configuration = CommandConfiguration(
    commandName: "serve",
    abstract: "A search server that indexes meanwhile: intended keystroke to answer, by kind of request.",
    discussion: """
      Typists, 32 by default, ask a server short queries and phrases over Unix sockets; a regular expression over everything comes \
      each second, and a query each half second waits for what is being indexed. Behind them the server reads the tree \
      from the device, indexes it, merges segments and compares checksums, as much as it gets. All contenders run the \
      same server, each as a process of its own, one after the other; every answer is checked. Latency counts from the \
      time at which a request was intended. Ctrl-C ends the run with what it has.

      Each contender runs for --seconds under full load, and for as long idle, with typists alone: by default \
      \(Self.windows()) of windows. Reading the tree, counting what answers must be, starting servers and heavy \
      requests one by one on the idle machine take about a fifth of that more.

      Contenders:
      \(ServeContender.all.map { "  \($0.name): \($0.summary)" }.joined(separator: "\n"))
        opportune-level-1 and on (not by default): opportune with its background held at one of the levels that a target moves
      """)

  @Option(help: "Only these contenders, separated by commas or repeated. (default: all)")
  var contender: [String] = []
  @Option(
    help:
      "Loads, separated by commas or repeated: \(ServeOptions.loadNames.joined(separator: ", ")). (default: all)"
  )
  var load: [String] = []
  @Option(help: "Seconds of each contender under each load, all repeats together.") var seconds: Double = 120
  @Option(help: "How many windows the seconds are split over.") var repeats = 5
  @Option(
    help:
      "Connections of typists, from 1 to 8192. As much is asked in all, so each asks the less often the more there are."
  )
  var connections = 32
  @Option(
    help: "Heavy requests that come at once, from 1 to 64; still one a second on average, so 8 come each 8 s."
  )
  var heavy = 1
  @Option(
    help:
      "How queries read the index: from the device (direct) or through the page cache (cached). Background never fills the page cache."
  )
  var files = "direct"
  @Option(help: "What clients are connected by: Unix sockets (unix) or TCP on 127.0.0.1 (tcp).")
  var sockets = "unix"
  @Option(
    help:
      "Memory of each server, in MiB, from 64 to 65536; with 2,000 connections threads need some 512."
  )
  var serverMebibytes = 192
  @Option(help: "Folder to index; may be repeated. (default: \(Corpus.defaultRoots.joined(separator: " ")))")
  var tree: [String] = []
  @Option(help: "Where the index is made, on the device that is meant, and removed.", completion: .directory)
  var folder = "/var/tmp"
  @Option(
    help: "SwiftNIO's search server: the program ServeRival, which `make bench` builds and names.",
    completion: .file())
  var nioRival: String?
  @OptionGroup var output: ReportOutput
  @Option(help: "Write a self-contained page with curves and a timeline to this file.", completion: .file())
  var html: String?
  @Option(help: .hidden) var asServer: String?

  func validate() throws { if asServer == nil { try validateUse() } }

  mutating func run() async throws {
    if let asServer { return try await ServeChild.run(asServer) }
    try await measureAndReport()
  }

  var extras: [(path: String, text: (ServeReport) -> String)] {
    html.map { [($0, ServePage.render)] } ?? []
  }

  func options() throws(BenchError) -> ServeOptions {
    try ServeOptions(
      contenders: names(contender), loads: names(load), seconds: seconds, repeats: repeats,
      connections: connections, heavy: heavy, files: files, sockets: sockets,
      serverMebibytes: serverMebibytes, trees: tree, folder: folder, nioRival: nioRival,
      version: OpportuneCommand.configuration.version)
  }

  private static func windows() -> String {
    guard let options = try? ServeOptions() else { return "?" }
    let minutes = Int((options.secondsOfWindows / 60).rounded())
    return "\(options.contenders.count) × \(Int(options.seconds)) s × 2 = \(minutes) minutes"
  }
}
