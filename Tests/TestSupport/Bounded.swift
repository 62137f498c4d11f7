import Foundation
import Synchronization
import Testing

/// The trait of every suite (`@Suite(.bounded)`): each of its tests ends, and a failing test prints little.
///
/// A test may wait for an event that a bug prevents, without checking for cancellation; then it continues
/// after its time limit. So the process exits ten seconds later and names the test. For a test without a
/// limit, it exits after five minutes, or OPPORTUNE_TEST_SECONDS. If an expectation fails in a loop of
/// thousands, only the first few failures are printed.
public struct Bounded: SuiteTrait, TestTrait, TestScoping {
  public var isRecursive: Bool { true }

  public func provideScope(
    for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
  ) async throws {
    let time = (test.timeLimit ?? Self.longest) + .seconds(10)
    let watch = Watchdog.shared.watch(for: time) {
      endProcess(
        "✘ Test \(test.name) failed after \(time): it does not end, so the process does "
          + "(\(test.sourceLocation))")
    }
    defer { Watchdog.shared.unwatch(watch) }
    #if compiler(>=6.2)
      let told = Atomic<Int>(0)
      let few = IssueHandlingTrait.compactMapIssues { issue in
        let number = told.add(1, ordering: .relaxed).newValue
        guard number < Self.issues else {
          guard number == Self.issues else { return nil }
          var last = issue
          last.comments.append("What else fails in this test is left out.")
          return last
        }
        return issue
      }
      try await few.provideScope(for: test, testCase: testCase, performing: function)
    #else
      try await function()
    #endif
  }

  private static let issues = 20
  private static let longest = Duration.seconds(
    ProcessInfo.processInfo.environment["OPPORTUNE_TEST_SECONDS"].flatMap { Int($0) } ?? 300)
}

extension Trait where Self == Bounded {
  /// See ``Bounded``.
  public static var bounded: Self { Self() }
}

/// The processes that this one has started go as well: nobody else would end one that hangs.
private func endProcess(_ why: String) -> Never {
  FileHandle.standardError.write(Data("\(why)\n".utf8))
  let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
  for thread in threads {
    let children = (try? String(contentsOfFile: "/proc/self/task/\(thread)/children", encoding: .utf8)) ?? ""
    for child in children.split(separator: " ").compactMap({ pid_t($0) }) { kill(child, SIGKILL) }
  }
  _exit(1)
}
