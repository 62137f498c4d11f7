import ArgumentParser
import Glibc
import OpportuneBase

/// Writes a whole file, or explains why it cannot. A pipe with a reader is accepted as a file.
func write(_ text: String, to path: String) throws(OutputFailure) {
  try finish(try openToWrite(path, O_CREAT | O_TRUNC), "'\(path)'", with: text)
}

/// Never waits: a pipe that nobody reads would be waited for.
private func openToWrite(_ path: String, _ flags: Int32 = 0) throws(OutputFailure) -> Int32 {
  let file = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0o666)
  guard file < 0 else { return file }
  let number = errno
  if number == ENXIO, let kind = FileKind(path) {
    let what = kind == .pipe ? "a pipe that nobody reads" : kind.rawValue
    throw OutputFailure(
      saying: "'\(path)' cannot be written: it is \(what), expected a file, or a pipe with a reader")
  }
  throw OutputFailure("'\(path)' cannot be written", number)
}

/// Puts a whole file in the place of another, or of none: who reads it meanwhile has the old content or the
/// new one, also after a power cut. A link of that name is replaced, and nothing that others have made is
/// written to.
///
/// - Parameters:
///   - mode: its permissions; `nil`: as of a new file.
///   - name: what it is called in errors.
///   - suffix: what the file is called until then, behind its name.
func replaceFile(
  _ path: String, by text: String, mode: mode_t? = nil, name: String,
  suffix: String = "\(String(UInt64.random(in: 0 ... .max), radix: 36)).new"
) throws(OutputFailure) {
  let temporary = "\(path).\(suffix)"
  let file = open(
    temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode == nil ? 0o666 : 0o600)
  guard file >= 0 else { throw OutputFailure("'\(name)' cannot be written") }
  do throws(OutputFailure) {
    if let mode { fchmod(file, mode) }
    try finish(file, "'\(name)'", with: text, synchronised: true)
    guard rename(temporary, path) == 0 else { throw OutputFailure("'\(name)' cannot be replaced") }
  } catch {
    unlink(temporary)
    throw error
  }
}

/// Writes all that a file is to hold, and closes it.
func finish(
  _ file: Int32, _ name: String, with text: String, synchronised: Bool = false,
  close: (Int32) -> Int32 = Glibc.close
) throws(OutputFailure) {
  var number = writeAll(text, to: file)
  if number == 0, synchronised, fsync(file) != 0 { number = errno }
  // Some file systems say only then that there was no room.
  if close(file) != 0, number == 0 { number = errno }
  if number != 0 { throw OutputFailure("\(name) could not be written to its end", number) }
}

/// Refuses what is no name of a file.
func checkFileName(_ path: String) throws {
  guard path != "-" else {
    throw ValidationError("'-' is not standard output here: expected a file, ./- for one of that name")
  }
}

/// Refuses a file that cannot be written, before a long run.
func checkWritable(_ path: String) throws(OutputFailure) {
  var (status, output) = (stat(), stat())
  if stat(path, &status) == 0 {
    let kind = FileKind(status.st_mode)
    // Two texts in one file or pipe are neither; a terminal shows one after the other.
    if kind != .device, fstat(STDOUT_FILENO, &output) == 0,
      (output.st_dev, output.st_ino) == (status.st_dev, status.st_ino)
    {
      throw OutputFailure(
        saying: "'\(path)' is standard output, which has its own text: expected another file")
    }
    let file = try openToWrite(path)
    // A pipe's reader would take it for the end.
    if kind != .pipe { close(file) }
    return
  }
  let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
  if file >= 0 {
    close(file)
    unlink(path)
  } else if errno != EEXIST {  // a link to a file that is still to be made
    throw OutputFailure("'\(path)' cannot be written")
  }
}

/// As a shell reads it back: bash, zsh and ksh whatever is in it, and any POSIX shell what does not steer a
/// terminal.
func shellWord(_ text: String) -> String {
  let plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./%@"
  guard text.isEmpty || text.hasPrefix("-") || !text.allSatisfy(plain.contains) else { return text }
  let start = text.hasPrefix("-") ? "./" : ""
  guard text.printable == text else { return start + "$'" + text.utf8.map(inDollarQuotes).joined() + "'" }
  let quoted = text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''")
  return start + "'" + quoted + "'"
}

private func inDollarQuotes(_ byte: UInt8) -> String {
  let isPlain = (0x20...0x7E).contains(byte) && byte != UInt8(ascii: "'") && byte != UInt8(ascii: "\\")
  let octal = String(byte, radix: 8)
  return isPlain ? String(UnicodeScalar(byte)) : "\\" + String(repeating: "0", count: 3 - octal.count) + octal
}

/// Where a benchmark's report goes: `--json [FILE]`.
struct ReportOutput: ParsableArguments {
  @Flag(
    help:
      "Print JSON, and nothing else, to standard output (as with -); or write it to the file that follows.")
  var json = false
  @Argument(help: "With --json: the file to write it to.", completion: .file()) var jsonFile: String?

  func validate() throws {
    if let jsonFile, !json {
      throw ValidationError("'\(jsonFile)' is not expected: a file only goes with --json")
    }
  }

  /// Before a long run, and after all that is cheaper to refuse.
  func checkFileIsWritable() throws(OutputFailure) { if let file { try checkWritable(file) } }

  var file: String? { jsonFile == "-" ? nil : jsonFile }

  /// What was asked for, and the table unless JSON has standard output to itself.
  func report(json encoded: () throws -> String, table: () -> String) throws {
    if json {
      let text = try encoded()
      if let file { try write(text, to: file) } else { try StandardOutput.write(json: text) }
    }
    if !json || file != nil { try StandardOutput.write(table()) }
  }
}

/// The names of an option that takes several with commas, or is repeated. An empty one is among them, to be
/// refused as any that is not known: who writes `--figure ""` does not mean all.
func names(_ arguments: [String]) -> [String] {
  arguments.flatMap { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
}
