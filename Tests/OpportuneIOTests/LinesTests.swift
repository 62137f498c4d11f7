import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct LinesTests {
  private func lines(_ pieces: [[UInt8]], longest: Int = 100) throws(IOError) -> [String] {
    var splitter = LineSplitter(longest: longest)
    var lines: [String] = []
    for piece in pieces {
      splitter.append(piece)
      while let line = try splitter.next() { lines.append(line) }
    }
    if let rest = splitter.rest() { lines.append(rest) }
    #expect(splitter.rest() == nil)
    return lines
  }

  /// The lines are the same however the bytes come.
  @Test func linesAreCutHoweverTheBytesCome() throws {
    let texts: [(String, [String])] = [
      ("", []), ("\n", [""]), ("a", ["a"]), ("a\n", ["a"]), ("a\n\nb", ["a", "", "b"]),
      ("a\r\nb\r", ["a", "b\r"]), ("\r\n\r\n", ["", ""]), ("ä\nöü\n", ["ä", "öü"]), ("a\rb\n", ["a\rb"]),
    ]
    for (text, expected) in texts {
      let bytes = Array(text.utf8)
      for size in 1...max(1, bytes.count) {
        let pieces = stride(from: 0, to: bytes.count, by: size).map {
          Array(bytes[$0..<min($0 + size, bytes.count)])
        }
        #expect(try lines(pieces) == expected, "\(text.debugDescription) in pieces of \(size)")
      }
    }
  }

  @Test func whatIsNoUTF8IsReplaced() throws {
    #expect(try lines([[0xFF, 0x41, 10]]) == ["\u{FFFD}A"])
  }

  @Test func aLineThatIsTooLongIsRefused() throws {
    #expect(try lines([Array("1234\r\n1234\n".utf8)], longest: 4) == ["1234", "1234"])
    for text in ["12345\n", "12345", "1234\n12345\n", "12345\r\n"] {
      for pieces in [[Array(text.utf8)], Array(text.utf8).map { [$0] }] {
        #expect(throws: IOError(.lineTooLong, "")) { try lines(pieces, longest: 4) }
      }
    }
  }

  @Test(arguments: backends)
  func linesOfAFile(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let io = try makeBroker(backend).makeApp(named: "files")
      let path = folder.appending("lines")
      // More than a piece of a file, with lines across its borders.
      let expected = (0..<20_000).map { "line \($0)" }
      try await io.writeFile(path, Array(expected.joined(separator: "\n").utf8))
      var lines: [String] = []
      for try await line in try io.lines(of: path) { lines.append(line) }
      #expect(lines == expected)
      var few = 0
      for try await _ in try io.lines(of: path) {
        few += 1
        if few == 3 { break }
      }
      await #expect(throws: IOError(.lineTooLong, "")) {
        for try await _ in try io.lines(of: path, longest: 6) {}
      }
      #expect(throws: IOError(.configuration, "")) { try io.lines(of: path, longest: 0) }
      await #expect(throws: IOError(.system(.noSuchFileOrDirectory), "")) {
        for try await _ in try io.lines(of: folder.appending("none")) {}
      }
      // Closed, whether read to the end, left, or failed.
      try await eventually("the files' closing") {
        try await io.broker.statistics().apps[0].openDescriptors == 0
      }
    }
  }

  @Test(arguments: backends)
  func linesOfASocket(backend: IOConfiguration.Backend) async throws {
    let io = try makeBroker(backend).makeApp(named: "sockets")
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    let client = try await io.connect(to: try listener.address())
    let peer = try await listener.accept()
    let iterator = try io.lines(from: peer, longest: 8).makeAsyncIterator()
    try await io.send(client, from: try IOBuffer(copying: Array("one\r\ntw".utf8)))
    #expect(try await iterator.next() == "one")
    try await io.send(client, from: try IOBuffer(copying: Array("o\nthree".utf8)))
    #expect(try await iterator.next() == "two")
    try await io.close(client)
    #expect(try await iterator.next() == "three")
    #expect(try await iterator.next() == nil)
    #expect(try await iterator.next() == nil)
    try await io.close(peer)
    try await listener.close()
  }

  /// A peer that sends no line feed cannot make the program keep more than was allowed.
  @Test func aPeerThatEndsNoLineIsRefused() async throws {
    let io = try makeBroker(.uring).makeApp(named: "sockets")
    let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
    let client = try await io.connect(to: try listener.address())
    let peer = try await listener.accept()
    let iterator = try io.lines(from: peer, longest: 8).makeAsyncIterator()
    try await io.send(client, from: try IOBuffer(copying: Array("123456789".utf8)))
    await #expect(throws: IOError(.lineTooLong, "")) { try await iterator.next() }
    #expect(try await iterator.next() == nil)
    try await io.close(client)
    try await io.close(peer)
    try await listener.close()
  }
}
