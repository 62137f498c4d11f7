import ArgumentParser
import Glibc

/// Writes a whole file, or says why it cannot.
func write(_ text: String, to path: String) throws {
  guard let file = fopen(path, "w") else {
    throw ValidationError("'\(path)' cannot be written: \(String(cString: strerror(errno)))")
  }
  let written = fputs(text, file)
  guard fclose(file) == 0, written >= 0 else {
    throw ValidationError("'\(path)' could not be written to its end: \(String(cString: strerror(errno)))")
  }
}

/// Refuses a file that cannot be written, before a long run.
func checkWritable(_ path: String) throws {
  let isNew = access(path, F_OK) != 0
  let file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o644)
  guard file >= 0 else {
    throw ValidationError("'\(path)' cannot be written: \(String(cString: strerror(errno)))")
  }
  close(file)
  if isNew { unlink(path) }
}

@Sendable func writeToStandardError(_ text: String) {
  let bytes = Array(text.utf8)
  _ = Glibc.write(STDERR_FILENO, bytes, bytes.count)
}

/// Standard output is for results.
@Sendable func printToStandardError(_ line: String) { writeToStandardError(line + "\n") }

/// Refuses `file` without `--json`, which it goes with.
func checkJSONFile(_ file: String?, json: Bool) throws {
  if let file, !json {
    throw ValidationError("'\(file)' is not expected: a file only goes with --json")
  }
}

/// What `--json [FILE]` asks for, and the table unless JSON has standard output to itself.
func printReport(json: Bool, to file: String?, encoded: () throws -> String, table: () -> String) throws {
  if json {
    let text = try encoded()
    if let file { try write(text, to: file) } else { print(text, terminator: "") }
  }
  if !json || file != nil { print(table(), terminator: "") }
}

/// The names of an option that takes several with commas, or is repeated.
func names(_ arguments: [String]) -> [String] { arguments.flatMap { $0.split(separator: ",").map(String.init) } }
