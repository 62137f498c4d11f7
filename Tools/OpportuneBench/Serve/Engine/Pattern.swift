import Glibc

/// A regular expression of the C library, basic in bytes: what `grep -c -E` does.
///
/// Of one thread at a time, as the C library says of what it compiled: each request compiles its own.
final class Pattern: @unchecked Sendable {
  private var compiled = regex_t()

  /// - Throws: ``EngineError`` with code `pattern`.
  init(_ text: String) throws(EngineError) {
    let code = regcomp(&compiled, text, REG_EXTENDED | REG_NEWLINE)
    guard code == 0 else {
      var message = [CChar](repeating: 0, count: 128)
      regerror(code, &compiled, &message, message.count)
      throw EngineError(
        .pattern, String(decoding: message.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
    }
  }

  deinit { regfree(&compiled) }

  /// How many of these lines have a match.
  func lines(in bytes: UnsafeRawBufferPointer) -> Int {
    guard let base = bytes.baseAddress else { return 0 }
    let text = base.assumingMemoryBound(to: CChar.self)
    var count = 0
    var start = 0
    while start < bytes.count {
      var match = regmatch_t(rm_so: 0, rm_eo: regoff_t(bytes.count - start))
      guard regexec(&compiled, text + start, 1, &match, Self.startAndEnd) == 0 else { break }
      count += 1
      let end = start + Int(match.rm_so)
      guard let newline = memchr(base + end, 10, bytes.count - end) else { break }
      start = newline - UnsafeMutableRawPointer(mutating: base) + 1
    }
    return count
  }

  /// `REG_STARTEND`, which Glibc's headers in Swift do not have: the text ends where the match says.
  private static let startAndEnd: Int32 = 1 << 2
}

/// Counts lines of a text that comes piece by piece.
struct LineCounter {
  private let pattern: Pattern
  /// The beginning of a line that the next piece goes on with.
  private var open: [UInt8] = []
  private(set) var count = 0

  init(_ pattern: Pattern) { self.pattern = pattern }

  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    guard let last = bytes.lastIndex(of: 10), let first = bytes.firstIndex(of: 10) else {
      open.append(contentsOf: bytes)
      return
    }
    var start = 0
    if !open.isEmpty {
      start = first + 1
      open.append(contentsOf: bytes[..<start])
      count += open.withUnsafeBytes(pattern.lines)
      open.removeAll()
    }
    count += pattern.lines(in: UnsafeRawBufferPointer(rebasing: bytes[start..<last + 1]))
    open.append(contentsOf: bytes[(last + 1)...])
  }
}
