import ArgumentParser
import Glibc
import OpportuneBench
import Synchronization

private let wasInterrupted = Atomic<Bool>(false)

struct BenchIOCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "io",
    abstract: "Files and sockets in two classes: latency, cost, rates.",
    discussion: """
      Figures: \(IOBenchOptions.Figure.allCases.map(\.rawValue).joined(separator: ", ")).
      Ctrl-C ends the run with what it has.
      """)

  @Option(help: "Figures, separated by commas or repeated. (default: all)")
  var figure: [String] = []

  @Option(help: "Seconds of each point and repeat.")
  var seconds: Double = 30

  @Option(help: "Repeats of each point; medians are reported.")
  var repeats = 3

  @Option(help: "Folder for the test file, on the device that is meant.", completion: .directory)
  var folder = "/var/tmp"

  @Option(help: "Size of the test file in MiB.")
  var fileMebibytes = 1024

  @Flag(help: "Print JSON, and nothing else, to standard output; or write it to the file that follows.")
  var json = false

  @Option(
    help: "SwiftNIO's echo server, of `swift build -c release --product EchoRival` in bench/.", completion: .file())
  var echoRival: String?

  @Option(help: "Write the storage figure's Pareto front as SVG to this file.", completion: .file())
  var svg: String?

  @Argument(help: "With --json: the file to write it to.", completion: .file())
  var jsonFile: String?

  func validate() throws {
    if let jsonFile, !json {
      throw ValidationError("'\(jsonFile)' is not expected: a file only goes with --json")
    }
    guard access(folder, W_OK | X_OK) == 0 else {
      throw ValidationError("'\(folder)' is no folder that you may write to")
    }
    _ = try options()
  }

  mutating func run() async throws {
    interceptInterrupts()
    let report = try await IOBench(
      options: try options(), isInterrupted: { wasInterrupted.load(ordering: .relaxed) },
      progress: { line in
        let bytes = Array((line + "\n").utf8)
        _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
      }
    ).run()
    if json {
      let text = try report.json()
      if let jsonFile { try write(text, to: jsonFile) } else { print(text, terminator: "") }
    }
    if let svg { try write(IOParetoChart(report).svg(), to: svg) }
    if !json || jsonFile != nil { print(report.table(), terminator: "") }
    if report.wasInterrupted { throw ExitCode(130) }
  }

  private func options() throws -> IOBenchOptions {
    do {
      return try IOBenchOptions(
        figures: figure.flatMap { $0.split(separator: ",").map(String.init) }, seconds: seconds, repeats: repeats,
        folder: folder, fileMebibytes: fileMebibytes, echoRival: echoRival)
    } catch {
      throw ValidationError(error.description)
    }
  }

  private func write(_ text: String, to path: String) throws {
    guard let file = fopen(path, "w") else {
      throw ValidationError("'\(path)' cannot be written: \(String(cString: strerror(errno)))")
    }
    let written = fputs(text, file)
    guard fclose(file) == 0, written >= 0 else {
      throw ValidationError("'\(path)' could not be written to its end: \(String(cString: strerror(errno)))")
    }
  }
}

/// The first Ctrl-C asks the run to end; a second one ends the program.
private func interceptInterrupts() {
  _ = wasInterrupted.load(ordering: .relaxed)  // initialised before a handler may need it
  var action = sigaction()
  action.__sigaction_handler.sa_handler = { _ in wasInterrupted.store(true, ordering: .relaxed) }
  action.sa_flags = Int32(bitPattern: UInt32(SA_RESETHAND)) | Int32(SA_RESTART)
  sigaction(SIGINT, &action, nil)
}
