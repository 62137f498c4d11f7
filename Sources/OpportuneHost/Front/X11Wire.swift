/// Requests of the X protocol, version 11, and of the extension X-Resource, for little-endian machines.
enum X11Request {
  static let activeWindow = "_NET_ACTIVE_WINDOW"
  static let windowProcess = "_NET_WM_PID"
  static let resource = "X-Resource"
  /// Atoms that every server has.
  static let machineAtom: UInt32 = 36  // WM_CLIENT_MACHINE
  static let anyType: UInt32 = 0

  static func setup(_ cookie: X11Authority.Cookie?) -> [UInt8] {
    var out = ByteWriter()
    out.byte(UInt8(ascii: "l"))
    out.byte(0)
    out.two(11)
    out.two(0)
    out.two(UInt16(clamping: cookie?.protocolName.count ?? 0))
    out.two(UInt16(clamping: cookie?.data.count ?? 0))
    out.two(0)
    out.all(cookie?.protocolName ?? [])
    out.pad()
    out.all(cookie?.data ?? [])
    out.pad()
    return out.bytes
  }

  private static func request(_ code: UInt8, _ detail: UInt8, _ body: (inout ByteWriter) -> Void) -> [UInt8] {
    var inner = ByteWriter()
    body(&inner)
    inner.pad()
    var out = ByteWriter()
    out.byte(code)
    out.byte(detail)
    out.two(UInt16(clamping: 1 + inner.bytes.count / 4))
    out.all(inner.bytes)
    return out.bytes
  }

  static func internAtom(_ name: String) -> [UInt8] {
    request(16, 0) {
      $0.two(UInt16(clamping: name.utf8.count))
      $0.two(0)
      $0.all(name.utf8)
    }
  }

  static func queryExtension(_ name: String) -> [UInt8] {
    request(98, 0) {
      $0.two(UInt16(clamping: name.utf8.count))
      $0.two(0)
      $0.all(name.utf8)
    }
  }

  /// Asks for an event whenever a property of a window changes.
  static func followProperties(of window: UInt32) -> [UInt8] {
    request(2, 0) {
      $0.four(window)
      $0.four(1 << 11)  // the mask of events is given
      $0.four(1 << 22)  // of properties
    }
  }

  /// - Parameter words: how much at most, in units of four bytes.
  static func property(_ atom: UInt32, of window: UInt32, words: UInt32) -> [UInt8] {
    request(20, 0) {
      $0.four(window)
      $0.four(atom)
      $0.four(anyType)
      $0.four(0)
      $0.four(words)
    }
  }

  /// A request that has an answer and no effect.
  static var inputFocus: [UInt8] { request(43, 0) { _ in } }

  static func resourceVersion(_ code: UInt8) -> [UInt8] {
    request(code, 0) {
      $0.byte(1)
      $0.byte(2)
      $0.two(0)
    }
  }

  /// The processes of clients, as the kernel told the server.
  ///
  /// - Parameter client: any resource of it, as a window; 0: of all clients.
  static func processes(_ code: UInt8, of client: UInt32) -> [UInt8] {
    request(code, 4) {
      $0.four(1)
      $0.four(client)
      $0.four(2)  // the mask of process numbers
    }
  }
}

/// What a server sends, taken apart.
enum X11Message: Sendable, Hashable {
  /// The connection stands: the root windows, one a screen.
  case accepted(roots: [UInt32])
  case reply(sequence: UInt16, [UInt8])
  case error(sequence: UInt16, code: UInt8)
  case propertyChanged(window: UInt32, atom: UInt32)
  /// Some other event.
  case event

  /// The longest message that is taken. Servers send some kilobytes.
  static let longest = 1 << 20

  /// Takes the next message off the bytes.
  ///
  /// - Returns: `nil` where it is not there as a whole yet.
  static func next(of bytes: inout ArraySlice<UInt8>, isSetUp: Bool) throws(FrontError) -> X11Message? {
    let reader = ByteReader(bytes)
    guard isSetUp else { return try setup(reader, &bytes) }
    guard reader.count >= 32 else { return nil }
    let kind = reader.byte(0) & 0x7f
    // Only replies and generic events are longer.
    let extra = kind == 1 || kind == 35 ? reader.four(4) : 0
    let length = try length(32, words: extra)
    guard reader.count >= length else { return nil }
    bytes = bytes.dropFirst(length)
    switch kind {
    case 0: return .error(sequence: reader.two(2), code: reader.byte(1))
    case 1: return .reply(sequence: reader.two(2), Array(reader.part(0, length)))
    case 28: return .propertyChanged(window: reader.four(4), atom: reader.four(8))
    default: return .event
    }
  }

  private static func length(_ start: Int, words: UInt32) throws(FrontError) -> Int {
    guard words <= longest / 4 else {
      throw FrontError(.malformed("a message of \(words) words: expected at most \(longest / 4)"))
    }
    return start + Int(words) * 4
  }

  private static func setup(
    _ reader: ByteReader, _ bytes: inout ArraySlice<UInt8>
  ) throws(FrontError) -> X11Message? {
    guard reader.count >= 8 else { return nil }
    let length = try length(8, words: UInt32(reader.two(6)))
    guard reader.count >= length else { return nil }
    bytes = bytes.dropFirst(length)
    guard reader.byte(0) == 1 else {
      let count = reader.byte(0) == 0 ? Int(reader.byte(1)) : length
      let why = String(decoding: reader.part(8, min(count, length - 8)).prefix { $0 != 0 }, as: UTF8.self)
      throw FrontError(.refused(why.filter { $0 != "\n" }))
    }
    // Vendor, formats, then the screens with their depths.
    var place = 40 + (Int(reader.two(24)) + 3) / 4 * 4 + Int(reader.byte(29)) * 8
    var roots: [UInt32] = []
    for _ in 0..<reader.byte(28) {
      guard place + 40 <= length else { throw FrontError(.malformed("screens past the end of its greeting")) }
      roots.append(reader.four(place))
      let depths = reader.byte(place + 39)
      place += 40
      for _ in 0..<depths {
        guard place + 8 <= length else {
          throw FrontError(.malformed("depths past the end of its greeting"))
        }
        place += 8 + Int(reader.two(place + 2)) * 24
      }
    }
    return .accepted(roots: roots)
  }

  /// The processes in a reply to ``X11Request/processes(_:of:)``.
  static func processes(in reply: [UInt8]) -> [Int32] {
    let reader = ByteReader(reply)
    var (place, result) = (32, [Int32]())
    for _ in 0..<min(reader.four(8), 100_000) {
      guard place + 12 <= reader.count else { break }
      let (mask, length) = (reader.four(place + 4), Int(reader.four(place + 8)))
      if mask & 2 != 0, length >= 4, place + 16 <= reader.count,
        let pid = Int32(exactly: reader.four(place + 12)),
        pid > 0
      {
        result.append(pid)
      }
      place += 12 + (length + 3) / 4 * 4
    }
    return result
  }

  /// The value of a property in a reply; `nil` where there is none of this width, in bits.
  static func value(in reply: [UInt8], width: UInt8) -> ArraySlice<UInt8>? {
    let reader = ByteReader(reply)
    guard reader.byte(1) == width, reader.four(8) != 0 else { return nil }
    let (count, overflow) = Int(reader.four(16)).multipliedReportingOverflow(by: Int(width / 8))
    guard !overflow, count > 0, 32 + count <= reader.count else { return nil }
    return reader.part(32, count)
  }
}
