import Glibc

/// A folder of one server in that of the run; gone with it, as an index of each would fill the disk.
final class ServeFolder {
  let path: String

  init(_ folder: String, _ number: Int) throws(BenchError) {
    path = "\(folder)/\(number)"
    guard mkdir(path, 0o700) == 0 else { throw .failed("'\(path)' was not made") }
  }

  deinit {
    if let folder = opendir(path) {
      while let entry = readdir(folder) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
          $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name != ".", name != ".." { unlink("\(path)/\(name)") }
      }
      closedir(folder)
    }
    rmdir(path)
  }
}
