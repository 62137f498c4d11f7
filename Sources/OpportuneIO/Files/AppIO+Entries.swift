internal import COpportune
import Glibc
public import SystemPackage

extension AppIO {
  /// The entries of a folder without `.` and `..`, in the file system's order, read in pieces as they are
  /// asked for.
  ///
  /// Whether an entry that comes or goes meanwhile is among them is up to the file system.
  ///
  /// - Parameters:
  ///   - path: of the folder; a symbolic link at its end is followed.
  ///   - limit: the time limit of each piece, and of the open.
  /// - Returns: the entries; they throw ``IOError``, with the path in its message: `system` with
  ///   `notDirectory`, `noSuchFileOrDirectory`, `permissionDenied` and what else the kernel says, and what
  ///   every call throws.
  public func entries(of path: FilePath, within limit: Duration? = nil) -> FolderEntries {
    FolderEntries(io: self, path: path, limit: limit)
  }

  /// Reads the next piece of a folder. Returns an empty one at its end only.
  fileprivate func piece(
    of folder: FileDescriptor, _ path: FilePath, within limit: Duration?
  ) async throws(IOError) -> [FolderEntry] {
    let end = limit.map { ContinuousClock.now + $0 }
    let opened = call(.OPP_RING_NOP, .storage, folder).closesBefore
    while true {
      var turn = call(.OPP_RING_NOP, .storage, folder)
      turn.subject = .path(path)
      let closes = try await take(turn, since: opened, until: end)
      let read: Result<[FolderEntry], Errno>?
      do throws(IOError) {
        read = try await elsewhere(on: .storage, within: end.map { $0 - .now }) { [self] in
          var piece: Result<[FolderEntry], Errno>?
          _ = doInline(on: .storage, folder.rawValue, since: closes, unlessSuspended: true) {
            piece = FolderEntry.piece(of: folder.rawValue)
            return 0
          }
          return piece
        }
      } catch {
        throw Self.error(error, in: "read of the folder \"\(path)\"")
      }
      switch read {
      case .success(let entries): return entries
      case .failure(let code):
        throw IOError(.system(code), "read of the folder \"\(path)\": \(code)")
      case nil: continue  // suspended since its turn
      }
    }
  }
}

/// An entry of a folder.
public struct FolderEntry: Sendable, Hashable {
  /// What an entry is, without following it.
  public enum Kind: Sendable, Hashable, CaseIterable {
    /// A regular file.
    case file
    /// A folder.
    case folder
    /// A symbolic link, whether or not it leads anywhere.
    case symbolicLink
    /// A FIFO, a socket or a device; also what has gone before it could be looked at.
    case other
  }

  /// The name in its folder, with the very bytes that it has there.
  public let name: FilePath.Component
  /// What it is.
  public let kind: Kind

  /// Bytes that are read at a time.
  private static let pieceCount = 64 << 10

  /// The next entries of an open folder; none at the end. Waits for the file system.
  fileprivate static func piece(of folder: Int32) -> Result<[FolderEntry], Errno> {
    let memory = UnsafeMutableRawPointer.allocate(byteCount: pieceCount, alignment: 8)
    defer { memory.deallocate() }
    var entries: [FolderEntry] = []
    // Not just `.` and `..`: an empty piece would be the end.
    while entries.isEmpty {
      let count = opp_file_entries(folder, memory, UInt32(pieceCount))
      guard count >= 0 else {
        if count == -EINTR { continue }
        return .failure(Errno(rawValue: -count))
      }
      if count == 0 { break }
      append(UnsafeRawBufferPointer(start: memory, count: Int(count)), of: folder, to: &entries)
    }
    return .success(entries)
  }

  /// Decodes `struct linux_dirent64`, which is kernel ABI: the record's size at 16, its type at 18, and at 19
  /// the name with a zero byte.
  private static func append(
    _ records: UnsafeRawBufferPointer, of folder: Int32, to entries: inout [FolderEntry]
  ) {
    var start = 0
    while start + 19 < records.count {
      let size = Int(records.load(fromByteOffset: start + 16, as: UInt16.self))
      guard size > 19, start + size <= records.count else { return }
      let record = UnsafeRawBufferPointer(rebasing: records[start..<start + size])
      start += size
      record[19...].withMemoryRebound(to: CChar.self) { text in
        // `.` and `..` are components of another kind.
        guard let text = text.baseAddress, let name = FilePath.Component(platformString: text),
          name.kind == .regular
        else { return }
        entries.append(FolderEntry(name: name, kind: kind(ofType: record[18], text, in: folder)))
      }
    }
  }

  private static func kind(ofType type: UInt8, _ name: UnsafePointer<CChar>, in folder: Int32) -> Kind {
    guard type == 0 else { return kind(ofMode: mode_t(type) << 12) }  // as `DTTOIF`
    // Some file systems do not keep the type with the name.
    var status = stat()
    guard fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return .other }
    return kind(ofMode: status.st_mode)
  }

  static func kind(ofMode mode: mode_t) -> Kind {
    switch mode & S_IFMT {
    case S_IFREG: .file
    case S_IFDIR: .folder
    case S_IFLNK: .symbolicLink
    default: .other
    }
  }
}

/// The entries of a folder; see ``AppIO/entries(of:within:)``. The folder is open from the first entry until
/// the last one, an error, or the iterator's end.
public struct FolderEntries: AsyncSequence, Sendable {
  public typealias Element = FolderEntry
  public typealias Failure = IOError

  let io: AppIO
  let path: FilePath
  let limit: Duration?

  public func makeAsyncIterator() -> Iterator { Iterator(of: self) }

  /// The iterator; not for several tasks at the same time.
  public final class Iterator: AsyncIteratorProtocol {
    private let entries: FolderEntries
    private let folder: IteratedFile
    private var piece: [FolderEntry] = []
    private var index = 0

    init(of entries: FolderEntries) {
      self.entries = entries
      folder = IteratedFile(entries.io, entries.path, options: [.directory], within: entries.limit)
    }

    public func next() async throws(IOError) -> FolderEntry? { try await next(isolation: nil) }

    public func next(isolation actor: isolated (any Actor)?) async throws(IOError) -> FolderEntry? {
      guard !folder.isAtEnd else { return nil }
      let (io, path, limit) = (entries.io, entries.path, entries.limit)
      do throws(IOError) {
        // Not only at the next piece: there may be thousands in this one.
        if Task.isCancelled {
          throw IOError(.cancelled, "read of the folder \"\(path)\": the task was cancelled")
        }
        if index == piece.count {
          piece = try await io.piece(of: try await folder.open(isolation: actor), path, within: limit)
          index = 0
        }
      } catch {
        await folder.close(after: error, isolation: actor)
        throw error
      }
      guard index < piece.count else {
        try await folder.close(isolation: actor)
        return nil
      }
      defer { index += 1 }
      return piece[index]
    }
  }
}
