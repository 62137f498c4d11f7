import COpportuneExplorer
import Glibc
import OpportuneBase

/// Executions of a property on a thread of its own. A trap or an endless loop stops that thread without
/// ending the program.
///
/// `@unchecked Sendable`: only that thread accesses the state until ``run(milliseconds:_:)`` returns; after a
/// trap it never does again. After a timeout the thread continues. Then only `input` and `figures` are read,
/// which it does not write during an execution.
final class Trial: @unchecked Sendable {
  private let property: any Property
  private let keepsSteps: Bool
  private(set) var input: [UInt8] = []
  private(set) var log: StepLog
  private(set) var violation: Violation?
  private(set) var figures = FuzzFigures()

  init(_ property: any Property, keepsSteps: Bool = false) {
    self.property = property
    self.keepsSteps = keepsSteps
    log = StepLog(keeps: keepsSteps)
  }

  func execute(_ input: [UInt8]) {
    self.input = input
    log = StepLog(keeps: keepsSteps)
    figures.executions += 1
    do throws(Violation) { try property.check(input, &log) } catch { violation = error }
    figures.steps += log.count
  }

  /// What went wrong, or nil.
  func run(milliseconds: UInt64, _ body: @escaping (Trial) -> Void) -> String? {
    let context = Unmanaged.passRetained(Context(trial: self, body: body))
    let result = oppx_trap_run(
      { context in
        guard let context else { return }
        let own = Unmanaged<Context>.fromOpaque(context).takeUnretainedValue()
        own.body(own.trial)
      }, context.toOpaque(), milliseconds)
    // A thread that was stopped keeps the context for ever.
    switch result {
    case 0:
      context.release()
      return violation?.description
    case -ETIMEDOUT: return "it does not end within \(milliseconds) ms"
    case ..<0: return "no thread: \(errorText(-result))"
    default: return "it traps: \(Self.names[result] ?? "signal \(result)")"
    }
  }

  private static let names: [Int32: String] = [
    SIGILL: "SIGILL", SIGTRAP: "SIGTRAP", SIGSEGV: "SIGSEGV", SIGBUS: "SIGBUS", SIGFPE: "SIGFPE",
    SIGABRT: "SIGABRT",
  ]
}

private final class Context {
  let trial: Trial
  let body: (Trial) -> Void

  init(trial: Trial, body: @escaping (Trial) -> Void) {
    self.trial = trial
    self.body = body
  }
}
