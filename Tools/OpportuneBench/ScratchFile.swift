import Glibc
import OpportuneBase

/// A temporary file of a bench. Its name is removed once it is open, so no file remains however the bench
/// ends, and no other process can replace it. It can be opened again by ``path``, and is deleted with its
/// last descriptor.
final class ScratchFile: Sendable {
  let descriptor: Int32

  /// Empty, in a folder on the device that is meant, and of a name that nothing has there.
  init(
    in folder: String,
    named name: String = "opportune-bench-\(String(UInt64.random(in: 0 ... .max), radix: 36))"
  ) throws(BenchError) {
    let name = "\(folder)/\(name)"
    descriptor = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw .failed("no file was made in '\(folder)'") }
    unlink(name)
  }

  deinit { close(descriptor) }

  /// For this process and those that it starts, as long as it has the file.
  var path: String { "/proc/\(getpid())/fd/\(descriptor)" }
}

extension posix_spawn_file_actions_t {
  /// Nothing comes in; output goes to the file, from its beginning.
  mutating func write(to file: ScratchFile, errors: Bool) { write(to: file.descriptor, errors: errors) }
}
