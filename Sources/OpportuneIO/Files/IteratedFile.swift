import SystemPackage

/// The file or folder that an iterator reads: opened when its first piece is asked for, and open until the
/// last one, an error, or the iterator's end. Not for several tasks at the same time.
final class IteratedFile {
  private let io: AppIO
  private let path: FilePath
  private let options: FileDescriptor.OpenOptions
  private let limit: Duration?
  private var file: FileDescriptor?
  /// It was closed: there are no more pieces.
  private(set) var isAtEnd = false

  init(_ io: AppIO, _ path: FilePath, options: FileDescriptor.OpenOptions = [], within limit: Duration?) {
    (self.io, self.path, self.options, self.limit) = (io, path, options, limit)
  }

  deinit {
    guard let file else { return }
    // The loop was left before the end. Nothing waits for this close.
    Task { [io] in try? await io.close(file) }
  }

  func open(isolation actor: isolated (any Actor)?) async throws(IOError) -> FileDescriptor {
    if let file { return file }
    let opened = try await io.open(path, .readOnly, options: options, within: limit)
    file = opened
    return opened
  }

  /// After the last piece.
  func close(isolation actor: isolated (any Actor)?) async throws(IOError) {
    if let file = take() { try await io.close(file) }
  }

  func close(after error: IOError, isolation actor: isolated (any Actor)?) async {
    if let file = take() { await io.close(file, after: error) }
  }

  private func take() -> FileDescriptor? {
    isAtEnd = true
    defer { file = nil }
    return file
  }
}
