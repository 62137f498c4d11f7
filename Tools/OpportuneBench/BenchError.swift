import Glibc
import OpportuneBase

/// Why a bench could not run, or why its outcome does not count.
///
/// The description names the value that was refused and what was expected of it.
package struct BenchError: Error, Equatable, CustomStringConvertible, Sendable {
  /// What went wrong, without the words.
  package enum Code: Sendable, Hashable {
    /// A value of the caller is outside its range, or unknown.
    case invalidArgument
    /// This machine or this user does not give what a contender needs.
    case unavailable
    /// A system call failed.
    case system
    /// A contender lost, duplicated or never finished work.
    case workLost
    /// An answer of the search index differs from a plain scan.
    case wrongAnswer
  }

  package let code: Code
  package let description: String

  init(_ code: Code, _ description: String) {
    self.code = code
    self.description = description
  }

  /// A value outside its range: names the option, the value and what was expected.
  static func invalid(_ option: String, _ value: String, expected: String) -> BenchError {
    BenchError(.invalidArgument, "\(option) '\(value)' is not valid: expected \(expected)")
  }

  /// A system call failed.
  static func failed(_ what: String, _ number: Int32 = errno) -> BenchError {
    BenchError(.system, "\(what): \(errorText(number))")
  }

  /// A whole number within a range.
  @discardableResult
  static func check(
    _ value: Int, _ option: String, _ range: ClosedRange<Int>
  ) throws(BenchError) -> Int {
    guard range.contains(value) else {
      throw .invalid(
        option, "\(value)", expected: "a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    return value
  }

  /// A number within a range.
  @discardableResult
  static func check(
    _ value: Double, _ option: String, _ range: ClosedRange<Double>, _ what: String = "a number"
  ) throws(BenchError) -> Double {
    func text(_ bound: Double) -> String { bound == bound.rounded() ? fixed(bound, 0) : "\(bound)" }
    // What is no number is in no range.
    guard range.contains(value) else {
      throw .invalid(
        option, "\(value)", expected: "\(what) from \(text(range.lowerBound)) to \(text(range.upperBound))")
    }
    return value
  }

  static func checkFolder(_ path: String) throws(BenchError) -> String {
    guard access(path, W_OK | X_OK) == 0 else {
      throw .invalid("--folder", path, expected: "a folder that you may write to")
    }
    return path
  }

  static func checkProgram(_ path: String, _ option: String) throws(BenchError) {
    guard access(path, X_OK) == 0 else {
      throw .invalid(option, path, expected: "a file that may be executed")
    }
  }

  /// That each of so many repeats within so many seconds has a window of some length.
  static func checkWindow(_ seconds: Double, _ repeats: Int, least: Double) throws(BenchError) {
    guard seconds / Double(repeats) >= least else {
      throw .invalid(
        "--repeats", "\(repeats)",
        expected:
          "at most \(Int(seconds / least)) for --seconds \(seconds), so that a window lasts at least \(least) s"
      )
    }
  }

  /// The figures, or values of another option, that `names` names, or all where it names none.
  static func figures<Figure: RawRepresentable<String> & CaseIterable>(
    _ names: [String], of option: String = "--figure"
  ) throws(BenchError) -> [Figure] {
    var chosen: [Figure] = []
    for name in names {
      guard let figure = Figure(rawValue: name) else {
        throw .invalid(option, name, expected: Figure.allCases.map(\.rawValue).joined(separator: ", "))
      }
      chosen.append(figure)
    }
    return chosen.isEmpty ? Array(Figure.allCases) : chosen
  }

  package static func == (left: BenchError, right: BenchError) -> Bool { left.code == right.code }
}
