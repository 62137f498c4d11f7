internal import Glibc

/// A folder of a tool, for what must have a name. A shell that outlives this process removes it, with all
/// that is in it, once nobody holds this any more, however the process ends.
package final class ScratchFolder: Sendable {
  package let path: String
  private let held: Int32
  private let shell: pid_t

  /// - Parameter name: what its name begins with.
  package init(in folder: String, named name: String = "opportune-bench") throws(SystemFailure) {
    var name = Array("\(folder)/\(name)-XXXXXX".utf8CString)
    guard mkdtemp(&name) != nil else { throw SystemFailure("no folder was made in '\(folder)'") }
    let path = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    do throws(SystemFailure) {
      let (reader, writer) = try ChildProcess.pipe()
      defer { close(reader) }
      // What ends this process may be meant for all of its group.
      let script = "trap '' HUP INT TERM; read nothing; rm -rf -- \"$0\""
      do throws(SystemFailure) {
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
