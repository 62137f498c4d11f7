import OpportuneBase

/// What a bench is to measure, and who follows the run.
package struct BenchContext<Options: Sendable>: Sendable {
  let options: Options
  let isInterrupted: @Sendable () -> Bool
  let progress: @Sendable (String) -> Void
}

/// A bench of `opportune bench`: its options say what it measures, and what it found is told in one form.
package protocol Bench: Sendable {
  associatedtype Options: Sendable
  associatedtype Outcome: BenchOutcome

  var context: BenchContext<Options> { get }

  init(_ context: BenchContext<Options>)

  func run() async throws -> Outcome
}

extension Bench {
  /// - Parameters:
  ///   - isInterrupted: asked between any two repeats, or more often; once true the run ends with what it
  ///     has.
  ///   - progress: takes a line for people.
  package init(
    options: Options, isInterrupted: @escaping @Sendable () -> Bool = { false },
    progress: @escaping @Sendable (String) -> Void = { _ in }
  ) {
    self.init(BenchContext(options: options, isInterrupted: isInterrupted, progress: progress))
  }

  package var options: Options { context.options }
  var isInterrupted: @Sendable () -> Bool { context.isInterrupted }
  var progress: @Sendable (String) -> Void { context.progress }
}

/// A bench that waits on the thread that it runs on.
package protocol BlockingBench: Bench {
  /// Measures on the calling thread.
  func measure() throws -> Outcome
}

extension BlockingBench {
  /// Measures on a thread of its own, so that no executor that is being measured runs the bench.
  package func run() async throws -> Outcome {
    let result = await withCheckedContinuation {
      (done: CheckedContinuation<Result<Outcome, any Error>, Never>) in
      let code = SystemThread.launch(named: "run") { done.resume(returning: Result { try measure() }) }
      if code != 0 { done.resume(returning: .failure(BenchError.failed("the bench's thread", code))) }
    }
    return try result.get()
  }
}

/// What a bench found.
package protocol BenchOutcome: Sendable {
  /// It was ended by Ctrl-C, and has what was measured until then.
  var wasInterrupted: Bool { get }
  /// False where so much of the run was disturbed that its figures do not count.
  var isValid: Bool { get }
  /// Why a contender is not in all of the report; nil where all are.
  var failure: BenchError? { get }

  func json() throws -> String
  /// For a terminal.
  func table() -> String
}

extension BenchOutcome {
  package var isValid: Bool { true }
  package var failure: BenchError? { nil }
}

extension BenchOutcome where Self: Encodable {
  package func json() throws -> String { try ReportJSON.text(of: self) }
}

extension BenchReport: BenchOutcome {
  package var isValid: Bool { noise.isValid }
  package func json() throws -> String { try ReportJSON.encode(self) }
  package func table() -> String { ReportTable.render(self) }
}

extension ServeReport: BenchOutcome {
  package var isValid: Bool { noise.isValid }
  package func json() throws -> String { try ServeJSON.encode(self) }
  package func table() -> String { ServeTable.render(self) }
}
