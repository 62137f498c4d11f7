import Glibc
import OpportuneBase

/// The kind of a text, which decides how it is escaped for output.
enum TextForm {
  /// For people; text of others in it is on lines of its own already.
  case text
  case json
  /// With escape sequences of ours, for a terminal; text of others in it is escaped already.
  case styled

  fileprivate func escape(_ text: String) -> String {
    switch self {
    case .text: text.printableLines
    case .json: text.printableJSON
    case .styled: text
    }
  }
}

/// Where the results of a command go, and the only way there: each write is checked.
enum StandardOutput {
  /// Returns when all of it has been taken.
  static func write(_ text: String, as form: TextForm = .text) throws(OutputFailure) {
    let number = writeAll(form.escape(text), to: STDOUT_FILENO)
    if number != 0 { throw OutputFailure("standard output could not be written", number) }
  }

  static func write(json text: String) throws(OutputFailure) { try write(text, as: .json) }
}

/// What was asked for could not be written: told without the usage, status 74.
struct OutputFailure: Error, CustomStringConvertible {
  let description: String
  /// Nobody reads any more, as behind `| head`: a signal ends most programs then, without a word.
  let isOfNoReader: Bool

  /// Of `sysexits.h`.
  static let status = EX_IOERR

  init(_ what: String, _ number: Int32 = errno) {
    description = "\(what): \(errorText(number))"
    isOfNoReader = number == EPIPE
  }

  init(saying description: String) {
    self.description = description
    isOfNoReader = false
  }
}

/// Writes a text whole, by bytes: U+0000 is one of them.
///
/// - Returns: 0, or the error.
func writeAll(_ text: String, to descriptor: Int32) -> Int32 {
  var text = text
  return text.withUTF8 { bytes in
    var done = 0
    while done < bytes.count {
      let count = Glibc.write(descriptor, bytes.baseAddress.map { $0 + done }, bytes.count - done)
      if count >= 0 {
        done += count
      } else if errno == EAGAIN {
        // Whoever shares the terminal or the pipe has made it so that nobody waits there.
        var polled = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
        poll(&polled, 1, -1)
      } else if errno != EINTR {
        return errno
      }
    }
    return 0
  }
}

/// Says something to people; results go to standard output. That nobody can be told that this failed, so it
/// is not checked.
@Sendable func writeToStandardError(_ text: String, as form: TextForm = .text) {
  _ = writeAll(form.escape(text), to: STDERR_FILENO)
}

/// Says a line, whatever is in it.
@Sendable func printToStandardError(_ line: String) { writeToStandardError(line.printable + "\n") }

/// Descriptors that the program was started without would be those of the first files that it opens, and
/// results would go into them. What is there instead can be neither read nor written.
func reserveStandardDescriptors() {
  for descriptor in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] where fcntl(descriptor, F_GETFD) < 0 {
    _ = open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY)
  }
}

/// Swift's own does not say that nothing could be written.
@available(*, unavailable, message: "use StandardOutput.write, which is checked")
func print(_ items: Any..., separator: String = " ", terminator: String = "\n") {}
