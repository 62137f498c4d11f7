import Glibc

/// A file of a bench. It has no name once it is there, so nothing of it stays, however the bench ends, and nobody else can put
/// another in its place. Opened again by ``path``; gone with the last who has it open.
final class ScratchFile: Sendable {
  let descriptor: Int32

  /// Empty, in a folder on the device that is meant, and of a name that nothing has there.
  init(
    in folder: String, named name: String = "opportune-bench-\(String(UInt64.random(in: 0 ... .max), radix: 36))"
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

/// A folder of a bench, for what other programs must find by a name. A shell that outlives the bench removes it, with all that
/// is in it, once nobody holds this any more, however the bench ends.
final class ScratchFolder: Sendable {
  let path: String
  private let held: Int32
  private let shell: pid_t

  init(in folder: String) throws(BenchError) {
    var name = Array("\(folder)/opportune-bench-XXXXXX".utf8CString)
    guard mkdtemp(&name) != nil else { throw .failed("no folder was made in '\(folder)'") }
    let path = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    do throws(BenchError) {
      let (reader, writer) = try ChildProcess.pipe()
      defer { close(reader) }
      // What ends the bench may be meant for all of its processes.
      let script = "trap '' HUP INT TERM; read nothing; rm -rf -- \"$0\""
      do throws(BenchError) {
        shell = try ChildProcess.start(["sh", "-c", script, path], ownSession: true) {
          $0.write(to: "/dev/null", O_WRONLY, errors: true)
          posix_spawn_file_actions_adddup2(&$0, reader, STDIN_FILENO)
        }
      } catch {
        close(writer)
        throw error
      }
      held = writer
    } catch {
      rmdir(path)
      throw error
    }
    self.path = path
  }

  deinit {
    close(held)
    ChildProcess.wait(for: shell)
  }
}
