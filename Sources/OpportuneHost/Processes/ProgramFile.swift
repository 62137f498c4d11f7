internal import Glibc

/// The file of a program.
package enum ProgramFile {
  /// As a shell finds it: by PATH unless there is a slash in its name.
  ///
  /// - Returns: its path, or the number of the error.
  package static func find(_ program: String) -> (path: String?, error: Int32) {
    guard !program.contains("/") else {
      return access(program, X_OK) == 0 ? (program, 0) : (nil, errno)
    }
    let folders = getenv("PATH").map { String(cString: $0) } ?? "/usr/local/bin:/usr/bin:/bin"
    var found: Int32 = ENOENT
    for folder in folders.split(separator: ":", omittingEmptySubsequences: false) {
      let path = (folder.isEmpty ? "." : String(folder)) + "/" + program
      var status = stat()
      guard stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { continue }
      if access(path, X_OK) == 0 { return (path, 0) }
      found = EACCES
    }
    return (nil, found)
  }
}
