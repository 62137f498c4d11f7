import ArgumentParser
import OpportuneBench

struct BenchCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench", abstract: "Measures what Opportune does against what competes with it.",
    subcommands: [
      BenchServeCommand.self, BenchLatencyCommand.self, BenchIOCommand.self, BenchMemoryCommand.self,
      BenchLifecycleCommand.self, BenchLocationCommand.self, BenchHostCommand.self,
    ])
}

/// A bench as a subcommand: what it cannot use is refused before it measures, and what it found is reported.
protocol MeasuringCommand: AsyncParsableCommand {
  associatedtype Measured: Bench

  var output: ReportOutput { get }
  /// Files that are written beside the report, and what goes into each.
  var extras: [(path: String, text: (Measured.Outcome) -> String)] { get }

  func options() throws(BenchError) -> Measured.Options
  /// Refuses what the options do not know of.
  func check(_ options: Measured.Options) throws
  /// The bench, ready to run: reads what it is to measure with.
  func bench() throws -> Measured
}

extension MeasuringCommand {
  var extras: [(path: String, text: (Measured.Outcome) -> String)] { [] }

  func check(_ options: Measured.Options) throws {}

  func bench() throws -> Measured {
    Measured(options: try options(), isInterrupted: wasInterrupted, progress: printToStandardError)
  }

  mutating func validate() throws { try validateUse() }

  func validateUse() throws {
    do { try check(options()) } catch let error as BenchError { throw ValidationError(error.description) }
    for file in extras { try checkFileName(file.path) }
  }

  mutating func run() async throws { try await measureAndReport() }

  func measureAndReport() async throws {
    try output.checkFileIsWritable()
    for file in extras { try checkWritable(file.path) }
    interceptInterrupts()
    let outcome = try await outcome()
    try output.report(json: outcome.json, table: outcome.table)
    for file in extras { try write(file.text(outcome), to: file.path) }
    if let failure = outcome.failure { throw failure }
    if !outcome.isValid { throw ExitCode(2) }
    if outcome.wasInterrupted { throw ExitCode(130) }
  }

  /// Some of what is given is only found wrong as it is read, such as a tree without a text.
  private func outcome() async throws -> Measured.Outcome {
    do { return try await bench().run() } catch let error as BenchError where error.code == .invalidArgument {
      throw ValidationError(error.description)
    }
  }
}
