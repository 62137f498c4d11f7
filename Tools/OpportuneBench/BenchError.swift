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
