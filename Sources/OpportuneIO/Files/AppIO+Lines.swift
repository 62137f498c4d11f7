public import SystemPackage

extension AppIO {
  /// Reads a file line by line, as the lines are asked for.
  ///
  /// A line ends with a line feed, which is not part of it, nor is a carriage return before that. What
  /// follows the last line feed is a line too, unless it is empty. Bytes that are no UTF-8 become U+FFFD.
  ///
  /// - Parameters:
  ///   - longest: bytes of a line at most; 1 to 2^30. A longer one ends the reading with an error.
  ///   - limit: the time limit of each request.
  /// - Throws: ``IOError`` with code `configuration` for a `longest` out of range; the lines themselves throw
  ///   what opening and reading throws, and `lineTooLong`.
  public func lines(
    of path: FilePath, longest: Int = 1 << 20, within limit: Duration? = nil
  ) throws(IOError) -> IOLines {
    try require(longest, in: IOBuffer.countRange, "longest")
    return IOLines(source: .file(try chunks(of: path, within: limit)), longest: longest)
  }

  /// Receives line by line from a stream socket, which is not closed with the last of them.
  ///
  /// - Parameters:
  ///   - longest: as of ``lines(of:longest:within:)``: what a peer may make this program keep.
  ///   - limit: the time limit of each receive. After an error the stream is unusable, as after
  ///     ``receive(_:into:_:untilFull:within:)``.
  /// - Throws: ``IOError`` with code `configuration` for a `longest` out of range; the lines themselves throw
  ///   what receiving throws, and `lineTooLong`.
  public func lines(
    from socket: FileDescriptor, longest: Int = 1 << 20, within limit: Duration? = nil
  ) throws(IOError) -> IOLines {
    try require(longest, in: IOBuffer.countRange, "longest")
    return IOLines(source: .stream(self, socket, limit), longest: longest)
  }
}

/// The lines of a file or of a stream socket, in order; see ``AppIO/lines(of:longest:within:)``.
public struct IOLines: AsyncSequence, Sendable {
  public typealias Element = String
  public typealias Failure = IOError

  enum Source: Sendable {
    case file(FileChunks)
    case stream(AppIO, FileDescriptor, Duration?)
  }

  let source: Source
  let longest: Int

  public func makeAsyncIterator() -> Iterator { Iterator(of: self) }

  /// The iterator; not for several tasks at the same time.
  public final class Iterator: AsyncIteratorProtocol {
    /// Of what is received at a time.
    private static let received = 16 << 10

    private let source: Source
    private var splitter: LineSplitter
    private let chunks: FileChunks.Iterator?
    private var buffer: IOBuffer?
    private var isAtEnd = false

    init(of lines: IOLines) {
      source = lines.source
      splitter = LineSplitter(longest: lines.longest)
      chunks = if case .file(let chunks) = lines.source { chunks.makeAsyncIterator() } else { nil }
    }

    public func next() async throws(IOError) -> String? { try await next(isolation: nil) }

    public func next(isolation actor: isolated (any Actor)?) async throws(IOError) -> String? {
      while true {
        do throws(IOError) {
          if let line = try splitter.next() { return line }
          guard !isAtEnd else { return splitter.rest() }
          if let more = try await more(isolation: actor) { splitter.append(more) } else { isAtEnd = true }
        } catch {
          isAtEnd = true
          splitter = LineSplitter(longest: 0)
          throw error
        }
      }
    }

    /// The next bytes; nil at the end.
    private func more(isolation actor: isolated (any Actor)?) async throws(IOError) -> [UInt8]? {
      switch source {
      case .file: return try await chunks?.next(isolation: actor)
      case .stream(let io, let socket, let limit):
        let buffer: IOBuffer
        if let made = self.buffer { buffer = made } else { buffer = try IOBuffer(count: Self.received) }
        self.buffer = buffer
        let count = try await io.receive(socket, into: buffer, within: limit)
        return count > 0 ? try buffer.bytes(in: 0..<count) : nil
      }
    }
  }
}

/// Cuts bytes into lines. Each byte is looked at once, however the bytes come.
struct LineSplitter {
  let longest: Int
  private var bytes: [UInt8] = []
  /// The next line begins here.
  private var start = 0
  /// Before this there is no line feed behind `start`.
  private var seen = 0

  init(longest: Int) { self.longest = longest }

  mutating func append(_ more: [UInt8]) {
    bytes.removeFirst(start)
    seen -= start
    start = 0
    bytes += more
  }

  /// The next line whose end has come.
  ///
  /// - Throws: ``IOError`` with code `lineTooLong`.
  mutating func next() throws(IOError) -> String? {
    let end = bytes.withUnsafeBufferPointer { bytes in
      bytes[seen...].firstIndex(of: UInt8(ascii: "\n"))
    }
    seen = end ?? bytes.count
    // The carriage return that may be there is not part of the line.
    guard seen - start <= longest || (seen - start == longest + 1 && bytes[seen - 1] == UInt8(ascii: "\r"))
    else { throw IOError(.lineTooLong, "a line has more than \(longest) bytes") }
    guard let end else { return nil }
    defer { (start, seen) = (end + 1, end + 1) }
    return text(until: end)
  }

  /// What is left at the end, once; nil where that is nothing.
  mutating func rest() -> String? {
    guard start < bytes.count else { return nil }
    defer { (bytes, start, seen) = ([], 0, 0) }
    return String(decoding: bytes[start...], as: UTF8.self)
  }

  private func text(until end: Int) -> String {
    let hasReturn = end > start && bytes[end - 1] == UInt8(ascii: "\r")
    return String(decoding: bytes[start..<(hasReturn ? end - 1 : end)], as: UTF8.self)
  }
}
