import Foundation
import Testing

/// In a process of its own: names what does not hold, and ends it, since there nobody hears an expectation.
func require(_ holds: Bool, _ what: @autoclosure () -> String) {
  guard !holds else { return }
  FileHandle.standardError.write(Data("does not hold: \(what())\n".utf8))
  _exit(1)
}

/// In the test: says what the process of its own complained of.
func explain(_ child: ExitTest.Result?) {
  let errors = child.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
  if !errors.isEmpty { print(errors) }
}
