import Glibc
import OpportuneBase

/// The file tree to index: text files in pieces, pieces in chunks of about 512 KiB, one background job each.
package struct Corpus: Sendable {
  /// Default roots of `--tree`.
  package static let defaultRoots = ["/usr/share/doc", "/usr/share/man", "/usr/include"]
  /// Text taken from the roots at most, so that the index of a window fits in memory.
  package static let bytesMax = 96 << 20
  static let chunkBytes = 512 << 10

  struct File: Sendable {
    let path: String
    let bytes: Int
  }

  /// Part of a file: its bytes `offset ..< offset + count`.
  struct Piece: Sendable {
    let file: Int
    let offset: Int
    let count: Int
  }

  private(set) var files: [File] = []
  private(set) var chunks: [[Piece]] = []
  /// Bytes of text that will be indexed, and those that were left over by the limit.
  package private(set) var bytes = 0
  package private(set) var bytesLeftOver = 0
  package private(set) var compressedSkipped = 0
  package private(set) var binarySkipped = 0
  package private(set) var unreadableSkipped = 0
  package var fileCount: Int { files.count }
  package let roots: [String]

  /// Walks the roots. Symbolic links are not followed; compressed and binary files are skipped and counted.
  package init(roots: [String], bytesMax: Int = Corpus.bytesMax) throws(BenchError) {
    try self.init(roots: roots, bytesMax: bytesMax, chunkBytes: Self.chunkBytes)
  }

  init(roots: [String], bytesMax: Int, chunkBytes: Int) throws(BenchError) {
    self.roots = roots
    var found: [File] = []
    for root in roots { found += try walk(root) }
    // The order is shuffled by a fixed seed, so that headers, manuals and prose mix in every window.
    found.sort { $0.path < $1.path }
    var random = SplitMix64(seed: 0x0BEE)
    found.shuffle(using: &random)
    for file in found {
      guard bytes + file.bytes <= bytesMax else {
        bytesLeftOver += file.bytes
        continue
      }
      switch Self.kind(of: file.path) {
      case .text:
        files.append(file)
        bytes += file.bytes
      case .binary: binarySkipped += 1
      case .unreadable: unreadableSkipped += 1
      }
    }
    guard !files.isEmpty else {
      throw .invalid(
        "--tree", roots.joined(separator: "', '"), expected: "a folder with readable text files")
    }
    cut(chunkBytes: chunkBytes)
  }

  /// One line on what was found.
  package var summary: String {
    func mebibytes(_ bytes: Int) -> String { fixed(Double(bytes) / 1_048_576, 1) + " MiB" }
    var text = "\(files.count) files, \(mebibytes(bytes)) of text in \(chunks.count) chunks"
    text += "; skipped \(compressedSkipped) compressed, \(binarySkipped) binary, "
    text += "\(unreadableSkipped) unreadable files"
    if bytesLeftOver > 0 { text += "; \(mebibytes(bytesLeftOver)) left over by the limit" }
    return text
  }

  /// The text of a piece; nil where the file cannot be read.
  func read(_ piece: Piece) -> [UInt8]? {
    TextFile.bytes(of: files[piece.file].path, from: piece.offset, count: piece.count)
  }

  private mutating func cut(chunkBytes: Int) {
    var current: [Piece] = []
    var filled = 0
    for (index, file) in files.enumerated() {
      var offset = 0
      while offset < file.bytes {
        let count = min(file.bytes - offset, chunkBytes - filled)
        current.append(Piece(file: index, offset: offset, count: count))
        offset += count
        filled += count
        if filled >= chunkBytes {
          chunks.append(current)
          current = []
          filled = 0
        }
      }
    }
    if !current.isEmpty { chunks.append(current) }
  }

  /// Refuses what is no folder.
  static func check(root: String) throws(BenchError) {
    var status = stat()
    guard stat(root, &status) == 0 else {
      throw .invalid("--tree", root, expected: "a folder that exists (\(errorText(errno)))")
    }
    guard status.st_mode & S_IFMT == S_IFDIR else { throw .invalid("--tree", root, expected: "a folder") }
  }

  private mutating func walk(_ root: String) throws(BenchError) -> [File] {
    try Self.check(root: root)
    var status = stat()
    var found: [File] = []
    var folders = [root]
    while let folder = folders.popLast() {
      guard let handle = opendir(folder) else {
        unreadableSkipped += 1
        continue
      }
      defer { closedir(handle) }
      while let entry = readdir(handle) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
          pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name == "." || name == ".." { continue }
        let path = "\(folder)/\(name)"
        guard lstat(path, &status) == 0 else { continue }
        if status.st_mode & S_IFMT == S_IFDIR { folders.append(path) }
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size > 0 else { continue }
        if [".gz", ".xz", ".bz2", ".zst"].contains(where: name.hasSuffix) {
          compressedSkipped += 1
        } else {
          found.append(File(path: path, bytes: Int(status.st_size)))
        }
      }
    }
    return found
  }

  private enum Kind { case text, binary, unreadable }

  /// A file with a zero byte near its beginning is binary.
  private static func kind(of path: String) -> Kind {
    guard let head = TextFile.bytes(of: path, from: 0, count: 1024) else { return .unreadable }
    return head.contains(0) ? .binary : .text
  }
}
