import Glibc

/// Reads the kernel's small text files of /proc, /sys and cgroups.
package enum KernelFile {
  /// The whole text; `nil` where the file cannot be read.
  package static func text(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    return withUnsafeTemporaryAllocation(byteCount: 16 << 10, alignment: 1) { chunk in
      while true {
        let count = read(descriptor, chunk.baseAddress, chunk.count)
        if count < 0, errno == EINTR { continue }
        guard count >= 0 else { return nil }
        if count == 0 { return String(decoding: bytes, as: UTF8.self) }
        bytes.append(contentsOf: UnsafeRawBufferPointer(rebasing: chunk[..<count]))
      }
    }
  }

  /// A file with a single number; `nil` for `max` and other text.
  static func number(_ path: String) -> UInt64? {
    text(path).flatMap { UInt64($0.filter { !$0.isWhitespace }) }
  }

  /// Parses lines of a name and a number, with or without `:` after the name. A unit of kB multiplies by
  /// 1024.
  package static func table(_ text: String) -> [Substring: UInt64] {
    var table: [Substring: UInt64] = [:]
    for line in text.split(separator: "\n") {
      let words = line.split(whereSeparator: { $0 == " " || $0 == "\t" || $0 == ":" })
      guard words.count >= 2, let value = UInt64(words[1]) else { continue }
      table[words[0]] =
        words.count > 2 && words[2] == "kB" ? value.multipliedReportingOverflow(by: 1024).partialValue : value
    }
    return table
  }
}
