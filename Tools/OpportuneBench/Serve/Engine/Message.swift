/// What a client asks: a length, then so many bytes.
///
///     u32 length   of what follows
///     u64 id       the answer has the same
///     u8  kind
///     …   text     words, or a regular expression
struct ServeRequest: Equatable, Sendable {
  enum Kind: UInt8, Sendable, CaseIterable {
    /// Documents with a word.
    case short = 1
    /// Documents with words in a row.
    case phrase
    /// Lines of all documents that match a regular expression.
    case heavy
    /// How often a word is in the chunk that is being indexed, once it is.
    case fresh
    /// Counters, for the bench.
    case statistics
  }

  static let textMax = 1024
  private static let head = 9

  let id: UInt64
  let kind: Kind
  var text = ""

  func encoded() -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.put(UInt32(Self.head + text.utf8.count))
    bytes.put(id)
    bytes.append(kind.rawValue)
    bytes += text.utf8
    return bytes
  }

  fileprivate init(decoding bytes: UnsafeRawBufferPointer) throws(EngineError) {
    var reader = ByteReader(bytes)
    id = try reader.take()
    let number = try reader.take(UInt8.self)
    guard let kind = Kind(rawValue: number) else {
      throw EngineError(.malformed, "a request of kind \(number)")
    }
    self.kind = kind
    text = String(decoding: try reader.take(count: bytes.count - reader.position), as: UTF8.self)
    guard kind == .statistics || !text.isEmpty else {
      throw EngineError(.malformed, "a request without a text")
    }
  }

  init(id: UInt64, kind: Kind, text: String = "") {
    self.id = id
    self.kind = kind
    self.text = text
  }

  fileprivate static let lengths = head...head + textMax
}

/// What the server answers.
struct ServeResponse: Equatable, Sendable {
  enum Status: UInt8, Sendable {
    case answered = 0
    /// It could not, such as where a pattern is none.
    case refused
  }

  /// Where the time of an answer went, in the server. Nanoseconds.
  struct Spent: Equatable, Sendable {
    /// `CLOCK_MONOTONIC` as the server came to answer, and as it had.
    var begin: UInt64 = 0
    var end: UInt64 = 0
    /// Of the engine's code, and in it: waiting for a CPU, for a lock or a page.
    var cpu: UInt64 = 0
    var cpuWait: UInt64 = 0
    var locks: UInt64 = 0
    /// In reads; waiting for what others had under way.
    var reading: UInt64 = 0
    var waiting: UInt64 = 0
  }

  var id: UInt64
  var status = Status.answered
  /// Occurrences, or lines.
  var matches: UInt64 = 0
  var documents: UInt32 = 0
  /// That a fresh answer is of.
  var chunk: UInt32 = 0
  /// Of a heavy request: microseconds until its thread was first seen at a lower priority; 0 if it never was.
  var loweredAfter: UInt32 = 0
  var spent = Spent()
  /// Statistics.
  var counters: [UInt64] = []

  static let head = 8 + 1 + 8 + 4 + 4 + 4 + 7 * 8
  static let lengths = head...head + 8 * 64

  func encoded() -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.put(UInt32(Self.head + 8 * counters.count))
    bytes.put(id)
    bytes.append(status.rawValue)
    bytes.put(matches)
    bytes.put(documents)
    bytes.put(chunk)
    bytes.put(loweredAfter)
    for time in [
      spent.begin, spent.end, spent.cpu, spent.cpuWait, spent.locks, spent.reading, spent.waiting,
    ] { bytes.put(time) }
    for counter in counters { bytes.put(counter) }
    return bytes
  }

  init(id: UInt64) { self.id = id }

  fileprivate init(decoding bytes: UnsafeRawBufferPointer) throws(EngineError) {
    var reader = ByteReader(bytes)
    id = try reader.take()
    guard let status = Status(rawValue: try reader.take()) else {
      throw EngineError(.malformed, "an answer of no known status")
    }
    self.status = status
    matches = try reader.take()
    documents = try reader.take()
    chunk = try reader.take()
    loweredAfter = try reader.take()
    spent = Spent(
      begin: try reader.take(), end: try reader.take(), cpu: try reader.take(), cpuWait: try reader.take(),
      locks: try reader.take(), reading: try reader.take(), waiting: try reader.take())
    while !reader.isAtEnd { counters.append(try reader.take()) }
  }
}

/// Cuts a stream of bytes into messages.
struct MessageReader {
  private var bytes: [UInt8] = []
  private var used = 0

  mutating func append(_ more: some Collection<UInt8>) {
    bytes.removeFirst(used)
    used = 0
    bytes.append(contentsOf: more)
  }

  /// The next request, nil where its end has not come yet.
  ///
  /// - Throws: ``EngineError`` with code `malformed`; what follows cannot be read either.
  mutating func nextRequest() throws(EngineError) -> ServeRequest? {
    try next(ServeRequest.lengths) { bytes throws(EngineError) in try ServeRequest(decoding: bytes) }
  }

  mutating func nextResponse() throws(EngineError) -> ServeResponse? {
    try next(ServeResponse.lengths) { bytes throws(EngineError) in try ServeResponse(decoding: bytes) }
  }

  private mutating func next<Message>(
    _ lengths: ClosedRange<Int>, _ decode: (UnsafeRawBufferPointer) throws(EngineError) -> Message
  ) throws(EngineError) -> Message? {
    let used = used
    let cut = bytes.withUnsafeBytes { all in
      Result { () throws(EngineError) -> (Message?, Int) in
        let left = UnsafeRawBufferPointer(rebasing: all[used...])
        guard left.count >= 4 else { return (nil, 0) }
        var reader = ByteReader(left)
        let length = Int(try reader.take(UInt32.self))
        guard lengths.contains(length) else {
          throw EngineError(
            .malformed,
            "a message of \(length) bytes: expected \(lengths.lowerBound) to \(lengths.upperBound)")
        }
        guard left.count >= 4 + length else { return (nil, 0) }
        return (try decode(try reader.take(count: length)), 4 + length)
      }
    }
    let (message, count) = try cut.get()
    self.used += count
    return message
  }
}
