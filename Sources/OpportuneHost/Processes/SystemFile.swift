internal import Glibc

/// Small files of the kernel, in /proc and in control groups: read whole, written in one call.
package enum SystemFile {
  /// The bytes; `nil` where there is no such file, or it may not be read: `errno` says which. Longer files
  /// are cut off.
  static func bytes(_ path: String, limit: Int = 1 << 20) -> [UInt8]? {
    let file = open(path, O_RDONLY | O_CLOEXEC)
    guard file >= 0 else { return nil }
    defer { close(file) }
    var result: [UInt8] = []
    var part = [UInt8](repeating: 0, count: 4096)
    while result.count < limit {
      let count = read(file, &part, part.count)
      if count < 0, errno == EINTR { continue }
      guard count >= 0 else { return nil }
      if count == 0 { break }
      result += part[..<count]
    }
    return result
  }

  /// The path from the root, for who may be in another folder; as it is where this one is gone.
  package static func absolute(_ path: String) -> String {
    guard !path.hasPrefix("/"), let folder = getcwd(nil, 0) else { return path }
    defer { free(folder) }
    return String(cString: folder) + "/" + path
  }

  static func text(_ path: String) -> String? { bytes(path).map { String(decoding: $0, as: UTF8.self) } }

  /// - Returns: 0, or the number of the error.
  static func write(_ text: String, to path: String) -> Int32 {
    let file = open(path, O_WRONLY | O_CLOEXEC)
    guard file >= 0 else { return errno }
    defer { close(file) }
    var text = text
    return text.withUTF8 { write(UnsafeRawBufferPointer($0), to: file) }
  }

  /// Writes all of the bytes, in one call where the kernel takes them so; also where there are none.
  ///
  /// - Returns: 0, or the number of the error.
  static func write(_ bytes: UnsafeRawBufferPointer, to file: Int32) -> Int32 {
    var rest = bytes
    while true {
      let count = Glibc.write(file, rest.baseAddress, rest.count)
      if count < 0 {
        if errno != EINTR { return errno }
        continue
      }
      if count == rest.count { return 0 }
      guard count > 0 else { return ENOSPC }
      rest = UnsafeRawBufferPointer(rebasing: rest[count...])
    }
  }

  /// Of a symbolic link; `nil` where there is none, or it may not be read.
  static func target(of path: String) -> String? {
    var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
    let count = readlink(path, &bytes, bytes.count)
    return count < 0 ? nil : String(decoding: bytes[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
  }

  static func exists(_ path: String) -> Bool { access(path, F_OK) == 0 }

  /// The value of a line such as `frozen 1`.
  static func value(of key: String, in path: String) -> UInt64? {
    guard let text = text(path) else { return nil }
    for line in text.split(separator: "\n") {
      let words = line.split(separator: " ")
      if words.count == 2, words[0] == key { return UInt64(words[1]) }
    }
    return nil
  }

  /// The names in a folder; none where it cannot be read.
  package static func names(in folder: String) -> [String] {
    guard let stream = opendir(folder) else { return [] }
    defer { closedir(stream) }
    var result: [String] = []
    while let entry = readdir(stream) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name != ".", name != ".." { result.append(name) }
    }
    return result
  }
}
