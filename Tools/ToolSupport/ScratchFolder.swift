internal import Glibc

/// A temporary folder of a tool. After the last reference is released, a shell that outlives this process
/// removes it with its contents, however the process ends.
package final class ScratchFolder: Sendable {
  package let path: String
  private let held: Int32
  private let shell: pid_t

  /// - Parameter name: the prefix of the folder's name.
  package init(in folder: String, named name: String = "opportune-bench") throws(SystemFailure) {
    var name = Array("\(folder)/\(name)-XXXXXX".utf8CString)
    guard mkdtemp(&name) != nil else { throw SystemFailure("no folder was made in '\(folder)'") }
    let path = String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    do throws(SystemFailure) {
      let (reader, writer) = try ChildProcess.pipe()
      defer { close(reader) }
      // A signal that ends this process may be sent to its whole process group.
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
