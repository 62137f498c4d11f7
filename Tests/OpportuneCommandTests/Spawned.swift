import Foundation
import TestSupport
import Testing

/// `opportune` as a separate process, started by a shell.
struct Spawned {
  let status: Int32
  let output: String
  let errors: String

  /// Runs it to its end, which comes after a minute in any case.
  ///
  /// - Parameters:
  ///   - script: what the shell does; the command and its arguments are `"$@"` there.
  ///   - output: where it writes to in place of what is returned.
  init(_ arguments: [String], by script: String = "exec \"$@\"", output: Int32? = nil) throws {
    let shell = Process(
      ["/bin/sh", "-c", script, "sh", "timeout", "-k", "5", "60", try builtProgram()] + arguments)
    // Files, since nobody reads a pipe's other end meanwhile.
    let folder = try Folder()
    let (told, said) = (try folder.file("output", []), try folder.file("errors", []))
    shell.standardOutput =
      try output.map { FileHandle(fileDescriptor: $0) } ?? FileHandle(forWritingTo: .init(filePath: told))
    shell.standardError = try FileHandle(forWritingTo: .init(filePath: said))
    try shell.run()
    shell.waitUntilExit()
    status = shell.terminationReason == .exit ? shell.terminationStatus : 128 + shell.terminationStatus
    self.output = String(decoding: try Data(contentsOf: .init(filePath: told)), as: UTF8.self)
    errors = String(decoding: try Data(contentsOf: .init(filePath: said)), as: UTF8.self)
  }
}

extension String {
  /// What would steer a terminal, less line ends.
  var steering: [Unicode.Scalar] {
    unicodeScalars.filter {
      $0 != "\n"
        && ($0.properties.generalCategory == .control || $0.properties.isBidiControl || $0 == "\u{2028}")
    }
  }
}
