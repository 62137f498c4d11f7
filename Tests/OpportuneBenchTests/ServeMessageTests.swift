import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneBench

@Suite(.bounded) struct ServeMessageTests {
  @Test func messagesAreReadAsTheyWereWritten() throws {
    let requests = ServeRequest.Kind.allCases.enumerated().map { number, kind in
      ServeRequest(id: UInt64(number) << 40, kind: kind, text: kind == .statistics ? "" : "é \(kind)")
    }
    var response = ServeResponse(id: .max)
    response.status = .refused
    (response.matches, response.documents, response.chunk, response.loweredAfter) = (1 << 50, 7, 8, 9)
    response.spent = ServeResponse.Spent(
      begin: 1, end: 2, cpu: 3, cpuWait: 6, locks: 7, reading: 4, waiting: 5)
    response.counters = [1, .max]
    let stream = requests.flatMap { $0.encoded() }
    // Cut anywhere.
    for size in [1, 2, 3, 7, stream.count] {
      var reader = MessageReader()
      var read: [ServeRequest] = []
      for start in stride(from: 0, to: stream.count, by: size) {
        reader.append(stream[start..<min(stream.count, start + size)])
        while let request = try reader.nextRequest() { read.append(request) }
      }
      #expect(read == requests)
    }
    var reader = MessageReader()
    reader.append(response.encoded())
    #expect(try reader.nextResponse() == response)
    #expect(try reader.nextResponse() == nil)
  }

  @Test func whatIsNoRequestIsRefused() {
    func message(_ length: UInt32, _ bytes: [UInt8]) -> [UInt8] {
      var all: [UInt8] = []
      all.put(length)
      return all + bytes
    }
    let id = [UInt8](repeating: 0, count: 8)
    let bad = [
      message(0, []), message(8, id), message(.max, []), message(9 + 1025, []),  // lengths
      message(10, id + [0, 65]), message(10, id + [6, 65]), message(10, id + [255, 65]),  // kinds
      message(9, id + [1]), message(9, id + [3]),  // no text
    ]
    for bytes in bad {
      var reader = MessageReader()
      reader.append(bytes)
      let error = #expect(throws: EngineError.self) { try reader.nextRequest() }
      #expect(error?.code == .malformed, "\(bytes)")
    }
    var reader = MessageReader()
    reader.append(message(5, [0, 0, 0, 0, 0]))
    #expect(throws: EngineError(.malformed, "")) { try reader.nextResponse() }
    reader = MessageReader()
    reader.append(message(69, id + [2] + [UInt8](repeating: 0, count: 60)))
    #expect(throws: EngineError(.malformed, "")) { try reader.nextResponse() }
  }

  /// Whatever comes, there is an error or a message, and nothing is read that is not there.
  @Test func noBytesAreTakenForMore() {
    var random = SplitMix64(seed: 8)
    for _ in 0..<2000 {
      var reader = MessageReader()
      var bytes = random.bytes(Int.random(in: 0...64, using: &random))
      if bytes.count > 4, Bool.random(using: &random) {
        bytes.replaceSubrange(0..<4, with: [UInt8(bytes.count - 4), 0, 0, 0])
      }
      reader.append(bytes)
      while let request = try? reader.nextRequest() { #expect(request.text.utf8.count <= 3 * 64) }
    }
  }

  @Test func numbersAreReadAsTheyWerePut() {
    for value in [0, 1, 127, 128, 300, 1 << 31, UInt64.max] {
      var bytes: [UInt8] = []
      bytes.putVariable(value)
      bytes.put(value)
      bytes.withUnsafeBytes { raw in
        var reader = ByteReader(raw)
        #expect((try? reader.takeVariable()) == value)
        #expect((try? reader.take(UInt64.self)) == value)
        #expect(reader.isAtEnd)
        #expect(throws: EngineError(.corrupt, "")) { try reader.take(UInt8.self) }
      }
      bytes.removeLast(9)
      if !bytes.isEmpty {
        bytes.withUnsafeBytes { raw in
          var reader = ByteReader(raw)
          #expect(throws: EngineError(.corrupt, "")) { try reader.takeVariable() }
        }
      }
    }
  }
}
