import Foundation

/// The path of a program that was built beside the tests.
public func builtProgram(_ name: String = "opportune") throws -> String {
  let tests = URL(filePath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
  return tests.deletingLastPathComponent().appending(path: name).path
}

extension Process {
  /// A program and its arguments, without input.
  public convenience init(_ words: [String], environment: [String: String]? = nil) {
    self.init()
    executableURL = URL(filePath: words[0])
    arguments = Array(words.dropFirst())
    if let environment { self.environment = environment }
    standardInput = FileHandle.nullDevice
  }
}

/// Dispatch's threads block all signals, and a program inherits that.
public func runUnblocked(_ process: Process) throws {
  var (none, before) = (sigset_t(), sigset_t())
  sigemptyset(&none)
  pthread_sigmask(SIG_SETMASK, &none, &before)
  defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
  try process.run()
}

/// Runs a program to its end. What it says on its standard error is less than a pipe holds.
public func outcome(
  of words: [String], environment: [String: String]? = nil
) throws -> (status: Int32, output: String, errors: String) {
  let (process, output, errors) = (Process(words, environment: environment), Pipe(), Pipe())
  (process.standardOutput, process.standardError) = (output, errors)
  try runUnblocked(process)
  let told = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
  let said = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
  process.waitUntilExit()
  return (process.terminationStatus, told, said)
}
