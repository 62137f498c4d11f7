import OpportuneFuzz
import Synchronization
import TestSupport
import Testing

/// A property of one's own, as docs/guide/policy.md shows it.
@Suite(.bounded) struct PropertyFailureTests {
  /// A sum of steps that must stay below a limit.
  private final class Sum: Property {
    let name = "sum"
    let grain = 2
    let head = 1
    let limit: Int
    let traps: Bool
    let inputs = Mutex<[[UInt8]]>([])

    init(below limit: Int, traps: Bool = false) { (self.limit, self.traps) = (limit, traps) }

    func check(_ input: [UInt8], _ log: inout StepLog) throws(Violation) {
      inputs.withLock { $0.append(input) }
      var sum = 0
      for var bytes in parts(of: input).steps {
        let number = bytes.below(10)
        log.note("\(number)")
        sum += number
        if traps { precondition(sum < limit) }
        if sum >= limit { throw Violation("\(sum) of \(limit)") }
      }
    }
  }

  /// A property that asks for odd inputs.
  private struct Empty: Property {
    let name = "empty"
    let grain: Int
    let head: Int
    func check(_ input: [UInt8], _ log: inout StepLog) {}
  }

  /// Waits on no thread of Swift's pool.
  private func failure(of property: Sum, seed: UInt64 = 1, executions: Int) async throws -> PropertyFailure? {
    try await onOwnThread { try property.fuzz(seed: seed, executions: executions) }
  }

  /// Without any one of its steps it would hold.
  private func expectNoneToSpare(_ failure: PropertyFailure, limit: Int) {
    let numbers = failure.steps.compactMap { Int($0) }
    let sum = numbers.reduce(0, +)
    #expect(sum >= limit && numbers.allSatisfy { sum - $0 < limit }, "\(failure)")
  }

  // R-CARD-09
  @Test func whatFailsIsMadeSmallerAndFailsAgainByItsInput() async throws {
    let property = Sum(below: 30)
    let failure = try #require(try await failure(of: property, executions: 1000))
    expectNoneToSpare(failure, limit: 30)
    #expect(failure.input.count == 1 + 2 * failure.steps.count, "a head and the steps: \(failure.input)")
    #expect(failure.description.contains("1  \(failure.steps[0])\n"))
    #expect(failure.description.hasSuffix("FAILS: \(failure.message)"))
    var log = StepLog(keeps: true)
    let violation = #expect(throws: Violation.self) { try property.check(failure.input, &log) }
    #expect(violation?.description == failure.message)
    #expect(log.steps == failure.steps)
  }

  // R-CARD-09
  @Test func numbersThatAreTooSmallAreRefused() async throws {
    let refused = await #expect(throws: PropertyRangeError.self) {
      try await failure(of: Sum(below: .max), executions: 0)
    }
    #expect(refused?.description == "executions is 0; expected at least 1")
    for (grain, head) in [(0, 0), (1, -1)] {
      let property = Empty(grain: grain, head: head)
      let refused = #expect(throws: PropertyRangeError.self) { try property.fuzz(executions: 1) }
      #expect(
        refused?.name.hasSuffix("of the property 'empty'") == true && refused?.value == min(grain, head))
    }
  }

  // R-CARD-09
  @Test func whatHoldsIsCheckedAsOftenAsWasAskedFor() async throws {
    let property = Sum(below: .max)
    #expect(try await failure(of: property, executions: 300) == nil)
    let inputs = property.inputs.withLock { $0 }
    #expect(inputs.count == 300)
    #expect(Set(inputs).count > 290)
    #expect(inputs.allSatisfy { ($0.count - 1) % 2 == 0 && (1...200).contains(($0.count - 1) / 2) })
  }

  // R-CARD-09
  @Test func theInputsFollowFromTheSeed() async throws {
    let (one, same, other) = (Sum(below: .max), Sum(below: .max), Sum(below: .max))
    _ = try await failure(of: one, seed: 7, executions: 50)
    _ = try await failure(of: same, seed: 7, executions: 50)
    _ = try await failure(of: other, seed: 8, executions: 50)
    let inputs = one.inputs.withLock { $0 }
    #expect(same.inputs.withLock { $0 } == inputs)
    #expect(Set(other.inputs.withLock { $0 }).isDisjoint(with: inputs))
  }

  // R-CARD-09
  @Test func aTrapIsAFailureAndEndsNoProgram() async throws {
    let failure = try #require(try await failure(of: Sum(below: 10, traps: true), executions: 100))
    #expect(failure.message.hasPrefix("it traps: "))
    expectNoneToSpare(failure, limit: 10)
  }
}
