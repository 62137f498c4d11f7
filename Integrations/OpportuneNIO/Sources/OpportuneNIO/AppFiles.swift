import Foundation
import Hummingbird
import Opportune

/// The files of a folder for Hummingbird's `FileMiddleware`, read through the I/O broker in the class of an
/// app.
///
/// ```swift
/// router.add(middleware: FileMiddleware(fileProvider: AppFiles("/srv/www", with: io)))
/// ```
///
/// Reads of a background app's files wait for those of the foreground, and a suspended app's for its
/// resumption. Symbolic links are followed, also out of the folder. Safe from any thread; blocks nothing.
public struct AppFiles: FileProvider {
  /// What the middleware asks of a file.
  public struct FileAttributes: FileMiddlewareFileAttributes, Sendable {
    public let isFolder: Bool
    /// In bytes.
    public let size: Int
    public let modificationDate: Date
  }

  private let root: FilePath
  private let io: AppIO
  private let count: Int

  /// Serves the files of a folder.
  ///
  /// - Parameters:
  ///   - root: nothing outside of it is named by a request.
  ///   - io: the app's files and sockets, of `IOBroker.makeIO(for:)`.
  ///   - count: the bytes of each read, 1 to 2^24, clamped.
  public init(_ root: FilePath, with io: AppIO, chunkBytes count: Int = 128 << 10) {
    self.root = root
    self.io = io
    self.count = min(max(1, count), 1 << 24)
  }

  /// The path within the folder, or nil if it would lead out of it.
  public func getFileIdentifier(_ path: String) -> FilePath? {
    // A path of the kernel ends at a null character; one of a request may go on.
    guard !path.utf8.contains(0) else { return nil }
    return root.lexicallyResolving(FilePath(path))
  }

  /// The attributes, or nil if there is no such file.
  ///
  /// - Throws: `IOError` for all else.
  public func getAttributes(id path: FilePath) async throws -> FileAttributes? {
    do throws(IOError) {
      let status = try await io.status(path)
      guard status.isFolder || status.isRegularFile else { return nil }
      return FileAttributes(
        isFolder: status.isFolder, size: Int(status.size),
        modificationDate: Date(timeIntervalSince1970: Double(status.modified) / 1e9))
    } catch {
      let absent: [IOError.Code] = [
        .system(.noSuchFileOrDirectory), .system(.notDirectory), .system(.permissionDenied),
        .system(.fileNameTooLong),
      ]
      if absent.contains(error.code) { return nil }
      throw error
    }
  }

  /// A body that streams the whole file.
  ///
  /// - Throws: `HTTPError` with status 404 if there is no such file.
  public func loadFile(id path: FilePath, context: some RequestContext) async throws -> ResponseBody {
    guard let attributes = try await getAttributes(id: path), !attributes.isFolder else {
      throw HTTPError(.notFound)
    }
    return body(path, 0..<attributes.size)
  }

  /// A body that streams a part of the file.
  public func loadFile(
    id path: FilePath, range: ClosedRange<Int>, context: some RequestContext
  ) async throws -> ResponseBody {
    body(path, Range(range))
  }

  private func body(_ path: FilePath, _ range: Range<Int>) -> ResponseBody {
    guard !range.isEmpty else { return ResponseBody() }
    return ResponseBody(contentLength: range.count) { [io, count] writer in
      let file = try await io.open(path, .readOnly)
      do {
        let buffer = try IOBuffer(count: min(count, range.count))
        var offset = range.lowerBound
        while offset < range.upperBound {
          let wanted = min(buffer.count, range.upperBound - offset)
          let got = try await io.read(file, into: buffer, 0..<wanted, at: Int64(offset), untilFull: true)
          // The length has been promised: the connection has to end.
          guard got == wanted else { throw FileShrank(path: path) }
          let chunk = try buffer.withBytes { ByteBuffer(bytes: UnsafeRawBufferPointer($0)[0..<got]) }
          try await writer.write(chunk)
          offset += got
        }
      } catch {
        try? await io.close(file)
        throw error
      }
      try await io.close(file)
      try await writer.finish(nil)
    }
  }
}

/// A file had fewer bytes when it was read than when its length was sent.
private struct FileShrank: Error, CustomStringConvertible {
  let path: FilePath

  var description: String { "\(path) has become shorter while it was sent" }
}

extension ResponseBody {
  /// A streamed body that is written on an app: for bodies that cost CPU time to make.
  ///
  /// - Parameters:
  ///   - app: where `write` runs.
  ///   - contentLength: in bytes, if it is known.
  ///   - write: as for Hummingbird's own initialiser; ends with `finish`.
  public init(
    on app: App, contentLength: Int? = nil,
    _ write: @Sendable @escaping (inout any ResponseBodyWriter) async throws -> Void
  ) {
    self.init(contentLength: contentLength) { writer in
      try await withTaskExecutorPreference(app.executor) { try await write(&writer) }
    }
  }
}
