import ArgumentParser
import OpportuneBench

struct BenchHostCommand: MeasuringCommand {
  typealias Measured = HostBench

  static let configuration = CommandConfiguration(
    commandName: "host",
    abstract: "Real programs as apps of the host: one in front beside others, switches, and the host idle.",
    discussion: """
      front: redis-server is asked at a fixed rate, latency counted from the time that was intended, while gcc or stress-ng \
      runs behind it: alone, as a shell starts them, by nice and ionice, in a control group of the least weight, and as \
      apps of a host. Contenders take turns. switches: from 'opportune front' to the first answer of a program of 256 MB; \
      with --criu also of one that is in files. memory: in a control group that may use --mebibytes, four programs behind \
      hold nearly all of it, and one in front takes a quarter: how long that takes, and who goes; alone, as a shell starts them (the kernel ends whom it likes), \
      with swap, and as suspended apps of a host, without swap (it terminates) and with it (it pages out). \
      idle: what the host takes while nothing happens.

      Programs that are not in PATH leave out their figure, which is told; so does who may make no memory group, or no \
      swap. Each run has a host of its own, on a socket of its own. Ctrl-C ends the run with what it has.

      Figures: \(HostBenchOptions.Figure.allCases.map(\.rawValue).joined(separator: ", ")).
      Loads: \(HostLoad.allCases.map(\.rawValue).joined(separator: ", ")).
      Contenders of the front figure: \(HostContender.allCases.map(\.rawValue).joined(separator: ", ")).
      """)

  @Option(help: "Figures, separated by commas or repeated. (default: all)") var figure: [String] = []
  @Option(help: "What runs behind, separated by commas or repeated. (default: all)") var load: [String] = []
  @Option(help: "Contenders of the front figure, separated by commas or repeated. (default: all)")
  var contender: [String] = []
  @Option(help: "Seconds of each window, and of the idle figure, 0.5 to 600.") var seconds: Double = 10
  @Option(help: "Repeats of each window, and of the memory figure.") var repeats = 3
  @Option(help: "Requests a second to the program in front, 100 to 20000.") var rate = 2000
  @Option(help: "Apps of the idle figure.") var apps = 200
  @Option(help: "The limit of the memory figure, MiB, 256 to 65536.") var mebibytes = 1024
  @Option(help: "Seconds from when that is held to the start of the program in front, 0 to 60.")
  var pause: Double = 5
  @Option(
    help: ArgumentHelp(
      "Where the memory figure swaps to: a file in --folder, or compressed main memory.",
      valueName: "file|zram"))
  var swapOn = "file"
  @Option(
    help: ArgumentHelp(
      "CRIU, for switches to a program that it has written to files; where there is no swap, as root.",
      valueName: "file"), completion: .file())
  var criu: String?
  @Option(help: "Where files are made, on the device that is meant, and removed.", completion: .directory)
  var folder = "/var/tmp"
  @OptionGroup var output: ReportOutput
  @Option(help: .hidden) var asProgram: String?

  func validate() throws { if asProgram == nil { try validateUse() } }

  mutating func run() async throws {
    guard let asProgram else { return try await measureAndReport() }
    guard let program = HostMemoryProgram(asProgram) else {
      throw ValidationError("--as-program '\(asProgram)' is not valid: the bench starts it itself")
    }
    try program.run()
  }

  func options() throws(BenchError) -> HostBenchOptions {
    try HostBenchOptions(
      figures: names(figure), loads: names(load), contenders: names(contender), seconds: seconds,
      repeats: repeats, rate: rate, apps: apps, mebibytes: mebibytes, pause: pause,
      swapPlace: swapOn, criu: criu, folder: folder)
  }
}
