import ArgumentParser
import Glibc

/// Writes a whole file, or says why it cannot.
func write(_ text: String, to path: String) throws {
  guard let file = fopen(path, "w") else {
    throw Failure("'\(path)' cannot be written: \(String(cString: strerror(errno)))")
  }
  let written = fputs(text, file)
  guard fclose(file) == 0, written >= 0 else {
    throw Failure("'\(path)' could not be written to its end: \(String(cString: strerror(errno)))")
  }
}

/// Refuses a file that cannot be written, before a long run.
func checkWritable(_ path: String) throws {
  guard path != "-" else {
    throw ValidationError("'-' is not standard output here: expected a file, ./- for one of that name")
  }
  let isNew = access(path, F_OK) != 0
  let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
  guard file >= 0 else {
    throw Failure("'\(path)' cannot be written: \(String(cString: strerror(errno)))")
  }
  close(file)
  if isNew { unlink(path) }
}

/// As a POSIX shell reads it back.
func shellWord(_ text: String) -> String {
  let plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./%@"
  guard text.isEmpty || text.hasPrefix("-") || !text.allSatisfy(plain.contains) else { return text }
  let quoted = text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''")
  return (text.hasPrefix("-") ? "./" : "") + "'" + quoted + "'"
}

@Sendable func writeToStandardError(_ text: String) {
  let bytes = Array(text.utf8)
  _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
}

/// Standard output is for results.
@Sendable func printToStandardError(_ line: String) { writeToStandardError(line + "\n") }

/// Where a benchmark's report goes: `--json [FILE]`.
struct ReportOutput: ParsableArguments {
  @Flag(help: "Print JSON, and nothing else, to standard output (as with -); or write it to the file that follows.")
  var json = false

  @Argument(help: "With --json: the file to write it to.", completion: .file())
  var jsonFile: String?

  func validate() throws {
    if let jsonFile, !json {
      throw ValidationError("'\(jsonFile)' is not expected: a file only goes with --json")
    }
  }

  /// Before a long run, and after all that is cheaper to refuse.
  func checkFileIsWritable() throws { if let file { try checkWritable(file) } }

  var file: String? { jsonFile == "-" ? nil : jsonFile }

  /// What was asked for, and the table unless JSON has standard output to itself.
  func print(json encoded: () throws -> String, table: () -> String) throws {
    if json {
      let text = try encoded()
      if let file { try write(text, to: file) } else { Swift.print(text, terminator: "") }
    }
    if !json || file != nil { Swift.print(table(), terminator: "") }
  }
}

/// The names of an option that takes several with commas, or is repeated. An empty one is among them, to be refused as any
/// that is not known: who writes `--figure ""` does not mean all.
func names(_ arguments: [String]) -> [String] {
  arguments.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
}
