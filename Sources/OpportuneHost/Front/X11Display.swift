internal import Glibc

/// A display of the X Window System on this machine, by its number.
package struct X11Display: Sendable, Hashable {
  package let number: Int
  package let screen: Int
  /// The file of cookies.
  package var authority = X11Authority.file()
  /// The folder of all displays' sockets.
  static let folder = "/tmp/.X11-unix"

  /// - Parameter name: as the variable DISPLAY: `:0`, `:0.1`, `unix:0`.
  /// - Returns: `nil` where it is none, or of another machine, whose processes are not this one's.
  package init?(_ name: String) {
    guard let colon = name.lastIndex(of: ":"), ["", "unix"].contains(name[..<colon]) else { return nil }
    let numbers = name[name.index(after: colon)...].split(separator: ".", omittingEmptySubsequences: false)
    guard (1...2).contains(numbers.count),
      numbers.allSatisfy({ (1...5).contains($0.utf8.count) && $0.utf8.allSatisfy { (48...57).contains($0) } }
      ),
      let number = Int(numbers[0])
    else { return nil }
    self.number = number
    screen = numbers.count > 1 ? Int(numbers[1]) ?? 0 : 0
  }

  package var name: String { "the X display :\(number)" }
  var path: String { Self.folder + "/X\(number)" }
}

/// The file of cookies that servers give to those who may use them.
enum X11Authority {
  struct Cookie: Sendable, Hashable {
    let protocolName: [UInt8]
    let data: [UInt8]
  }

  static let magicCookie = Array("MIT-MAGIC-COOKIE-1".utf8)
  private static let local: UInt16 = 256
  private static let wild: UInt16 = 65535

  /// The user's file.
  static func file() -> String? {
    if let path = getenv("XAUTHORITY") { return String(cString: path) }
    return getenv("HOME").map { String(cString: $0) + "/.Xauthority" }
  }

  /// The cookie of a display of this machine.
  ///
  /// - Returns: `nil` where there is none: the server may let the user in without.
  static func cookie(of display: X11Display) -> Cookie? {
    guard let bytes = display.authority.flatMap({ SystemFile.bytes($0) }) else { return nil }
    return cookie(of: display.number, host: X11Front.hostName(), in: bytes)
  }

  /// - Parameter bytes: of a file; what is cut off is passed over.
  static func cookie(of number: Int, host: [UInt8], in bytes: [UInt8]) -> Cookie? {
    var rest = bytes[...]
    func two() -> Int? {
      guard rest.count >= 2 else { return nil }
      defer { rest = rest.dropFirst(2) }
      return Int(rest[rest.startIndex]) << 8 | Int(rest[rest.startIndex + 1])
    }
    func text() -> [UInt8]? {
      guard let count = two(), rest.count >= count else { return nil }
      defer { rest = rest.dropFirst(count) }
      return Array(rest.prefix(count))
    }
    while let family = two() {
      guard let address = text(), let display = text(), let name = text(), let data = text() else {
        return nil
      }
      let isHere = family == local && address == host || family == wild
      if isHere, display.isEmpty || display == Array("\(number)".utf8), name == magicCookie {
        return Cookie(protocolName: name, data: data)
      }
    }
    return nil
  }
}
