package import Glibc
package import OpportuneApps

/// Where the host learns who is in front.
package protocol FrontSource: Sendable {
  /// For people, as `the X display :0`.
  var name: String { get }
  /// What follows it for a host that runs.
  func makeFollower() -> any FrontFollower
}

/// Follows a source for as long as the host runs. No call blocks. Used by one thread.
package protocol FrontFollower: AnyObject {
  /// What to wait for.
  var waits: [pollfd] { get }
  /// When to be called without an event.
  var nextDeadline: Moment? { get }
  /// Does what is to be done by now.
  ///
  /// - Parameter ready: descriptors of ``waits`` that have an event.
  /// - Returns: what was heard, in order.
  func advance(_ ready: Set<Int32>, now: Moment) -> [FrontEvent]
}

/// What the host hears of a source.
package enum FrontEvent: Sendable, Hashable {
  case followed(String)
  /// Why it is not followed, or not any more.
  case lost(String)
  case focus(FrontTarget?)
  /// The processes whose windows are shown, of a display that ends who does not hear it for long.
  case shown(Set<pid_t>)
}

extension FrontEvent {
  /// Only the last focus counts, and what is shown last: each costs a switch of apps, and the focus may move
  /// faster than that, as by a script.
  static func latest(_ events: [FrontEvent]) -> [FrontEvent] {
    var (hasFocus, hasShown) = (false, false)
    var result: [FrontEvent] = []
    for event in events.reversed() {
      switch event {
      case .focus where hasFocus, .shown where hasShown: continue
      case .focus: hasFocus = true
      case .shown: hasShown = true
      case .followed, .lost: break
      }
      result.append(event)
    }
    return result.reversed()
  }
}

/// What has the focus.
package enum FrontTarget: Sendable, Hashable {
  /// The process of a window.
  case window(pid_t)
  case job(TerminalJob)
}

/// What a terminal's foreground is.
package struct TerminalJob: Sendable, Hashable {
  /// The device.
  let terminal: String
  /// The group of its processes, as a shell makes one for each job; `nil`: there is none.
  let group: pid_t?
  /// Whether that terminal was typed into last.
  let isUsed: Bool
}

/// A display server, found by its socket.
package protocol DisplaySource: FrontSource {
  /// The folder in which its socket appears.
  var folder: String { get }
  /// Its socket; `nil` where there is none by now.
  func socket() -> String?
  /// What is said on a new connection.
  func makeSession() -> any FrontSession
}

extension DisplaySource {
  package func makeFollower() -> any FrontFollower { DisplayFollower(self) }
}

/// One connection to a display: bytes in, bytes out, without a descriptor or a clock.
package protocol FrontSession {
  /// What is to be sent by now.
  mutating func takeOutput() -> [UInt8]
  /// What the bytes tell, in order.
  ///
  /// - Throws: ``FrontError``; then the connection is of no more use.
  mutating func receive(_ bytes: [UInt8]) throws(FrontError) -> [FrontReport]
}

/// What a connection has told.
package enum FrontReport: Sendable, Hashable {
  /// The focus is followed from now on.
  case ready
  /// The process of the focused window; `nil`: there is none, or it is of another machine.
  case focus(Int32?)
  /// The processes whose windows are shown.
  case shown(Set<Int32>)
}

/// Why a connection to a display is given up.
package struct FrontError: Error, Sendable, Hashable, CustomStringConvertible {
  package let code: Code

  package enum Code: Sendable, Hashable {
    /// The server has refused the connection: what it says.
    case refused(String)
    /// The bytes are none of the protocol's: which.
    case malformed(String)
  }

  init(_ code: Code) { self.code = code }

  package var description: String {
    switch code {
    case .refused(let why): "it has refused the connection: \(why)"
    case .malformed(let what): "it has sent \(what)"
    }
  }
}

/// Bytes in the order of a little-endian machine, looked at without reading past the end.
struct ByteReader {
  let bytes: ArraySlice<UInt8>

  init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }
  init(_ bytes: [UInt8]) { self.bytes = bytes[...] }

  var count: Int { bytes.count }

  /// 0 past the end.
  func byte(_ place: Int) -> UInt8 { place >= 0 && place < bytes.count ? bytes[bytes.startIndex + place] : 0 }
  func two(_ place: Int) -> UInt16 { UInt16(byte(place)) | UInt16(byte(place + 1)) << 8 }
  func four(_ place: Int) -> UInt32 { UInt32(two(place)) | UInt32(two(place + 2)) << 16 }
  /// Cut off at the end.
  func part(_ start: Int, _ count: Int) -> ArraySlice<UInt8> {
    bytes.dropFirst(max(0, start)).prefix(max(0, count))
  }
}

/// Builds what is sent.
struct ByteWriter {
  private(set) var bytes: [UInt8] = []

  mutating func byte(_ value: UInt8) { bytes.append(value) }
  mutating func two(_ value: UInt16) { bytes += [UInt8(truncatingIfNeeded: value), UInt8(value >> 8)] }
  mutating func four(_ value: UInt32) {
    two(UInt16(truncatingIfNeeded: value))
    two(UInt16(value >> 16))
  }
  mutating func all(_ more: some Sequence<UInt8>) { bytes += more }
  /// Zeros up to a multiple of four bytes.
  mutating func pad() { while bytes.count % 4 != 0 { bytes.append(0) } }
}
