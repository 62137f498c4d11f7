internal import COpportuneHost
internal import OpportuneApps

/// Why a call of the bus is not carried out: the name of the error, and a text for people.
struct BusRefusal: Error {
  let name: String
  let why: String

  static func arguments(_ why: String) -> BusRefusal {
    BusRefusal(name: "org.freedesktop.DBus.Error.InvalidArgs", why: why)
  }
}

/// A message could not be read or written; the number of the error.
struct BusFailure: Error {
  let number: Int32

  /// - Parameter status: of a call of `opp_bus.h`.
  static func check(_ status: Int32) throws {
    if status < 0 { throw BusFailure(number: -status) }
  }
}

/// The arguments of a call, in their order. Its signature has been checked.
struct BusReader {
  let message: OpaquePointer

  /// - Throws: where it is longer than a line of the socket may be.
  func text() throws -> String {
    var text: UnsafePointer<CChar>?
    try BusFailure.check(opp_bus_read(message, CChar(UInt8(ascii: "s")), &text))
    guard let text else { return "" }
    let value = String(cString: text)
    guard value.utf8.count < LocalSocket.longestLine else {
      throw BusRefusal(
        name: "org.freedesktop.DBus.Error.LimitsExceeded",
        why: "a text has \(value.utf8.count) bytes: expected less than \(LocalSocket.longestLine)")
    }
    return value
  }

  func flag() throws -> Bool {
    var value: Int32 = 0
    try BusFailure.check(opp_bus_read(message, CChar(UInt8(ascii: "b")), &value))
    return value != 0
  }

  func number() throws -> Double {
    var value = 0.0
    try BusFailure.check(opp_bus_read(message, CChar(UInt8(ascii: "d")), &value))
    return value
  }

  func bytes() throws -> UInt64 {
    var value: UInt64 = 0
    try BusFailure.check(opp_bus_read(message, CChar(UInt8(ascii: "t")), &value))
    return value
  }

  func pid() throws -> Int32 {
    var value: UInt32 = 0
    try BusFailure.check(opp_bus_read(message, CChar(UInt8(ascii: "u")), &value))
    return Int32(clamping: value)
  }
}

/// Writes the values of an answer or a signal.
struct BusWriter {
  let message: OpaquePointer

  func text(_ value: String) throws {
    try BusFailure.check(value.withCString { opp_bus_append(message, CChar(UInt8(ascii: "s")), $0) })
  }

  func number(_ value: Double) throws { try basic("d", value) }
  func pid(_ value: Int32) throws { try basic("u", UInt32(max(0, value))) }
  func count(_ value: Int) throws { try basic("u", UInt32(clamping: value)) }
  func bytes(_ value: UInt64) throws { try basic("t", value) }

  func texts(_ values: [String]) throws {
    try container("a", "s") { for one in values { try text(one) } }
  }

  func container(
    _ type: Unicode.Scalar, _ contents: String, _ body: () throws -> Void
  ) throws {
    try BusFailure.check(opp_bus_begin(message, CChar(UInt8(ascii: type)), contents))
    try body()
    try BusFailure.check(opp_bus_end(message))
  }

  /// One entry of a dictionary of variants.
  func entry(
    _ key: String, _ signature: String, _ value: () throws -> Void
  ) throws {
    try container("e", "sv") {
      try text(key)
      try container("v", signature, value)
    }
  }

  private func basic<Value>(_ type: Unicode.Scalar, _ value: Value) throws {
    try BusFailure.check(
      withUnsafePointer(to: value) { opp_bus_append(message, CChar(UInt8(ascii: type)), $0) })
  }
}
