import TestSupport
import Testing

@testable import OpportuneIO

@Suite(.bounded) struct RequestsByDescriptorTests {
  // R-DISK-01
  @Test(arguments: 0..<5 as Range<UInt64>)
  func itHoldsWhatAListHolds(seed: UInt64) throws {
    let broker = try IOBroker()
    let io = try broker.makeApp(named: "requests")
    var random = SplitMix64(seed: seed)
    var index = RequestsByDescriptor()
    var all: [Request] = []
    for _ in 0..<2000 {
      if all.isEmpty || Bool.random(using: &random) {
        // Some that share a list, some that are no descriptors.
        let number = try #require([3, 4, 4099, 8195, -1, -100, Int32.max].randomElement(using: &random))
        let request = Request(IOCall(io, .OPP_RING_READ, on: .storage, descriptor: number))
        request.toInFlight(.operation, nil, .none)
        if Int.random(in: 0..<4, using: &random) == 0 { _ = request.toAccepted(1) }
        index.add(request)
        all.append(request)
      } else {
        index.remove(all.remove(at: Int.random(in: 0..<all.count, using: &random)))
      }
      for number in [3, 4099, 8195, Int32.max] {
        let expected = all.filter { $0.call.op.fd == number }
        #expect(
          Set(index.requests(on: number).map(ObjectIdentifier.init))
            == Set(expected.map(ObjectIdentifier.init)))
        #expect(index.isBusy(number) == expected.contains { !$0.isAccepted }, "seed \(seed)")
      }
    }
    for request in all { index.remove(request) }
  }

  /// An app that closes one of its many sockets would else hold up everybody's requests: in flight, or queued
  /// by a suspended app, there are many on another.
  // R-DISK-01
  @Test(arguments: [IOState.active, .suspended])
  func aCloseTakesNoWalk(state: IOState) async throws {
    func closes(among count: Int) async throws -> Duration {
      let broker = try makeBroker(.automatic)
      let io = try broker.makeApp(named: "closes", state: state)
      let (mine, theirs) = try descriptorPair()
      let receives = (0..<count).map { _ in Task { try await io.receive(mine, into: try IOBuffer(count: 1)) }
      }
      try await eventually("the receives") {
        let statistics = try await broker.statistics()
        let network = statistics.network
        return statistics.apps[0].inFlight + network.foregroundQueued + network.backgroundQueued == count
      }
      let time = await withCheckedContinuation { continuation in
        broker.reactor.post(
          Control { reactor in
            let times = (0..<5 as Range<Int32>).map { round in
              // Of numbers that nothing is on.
              let requests = (0..<100 as Range<Int32>).map { number in
                Request(
                  IOCall(io, .OPP_RING_CLOSE, on: .none, descriptor: (1 << 20) + 1024 + 100 * round + number))
              }
              return ContinuousClock().measure {
                for request in requests { reactor.path.close(request) }
              }
            }
            continuation.resume(returning: times.min() ?? .zero)
          })
      }
      await broker.shutdown()
      for receive in receives { #expect(await code { _ = try await receive.value } != nil) }
      for end in [mine, theirs] { try end.close() }
      return time
    }
    let (few, many) = (try await closes(among: 64), try await closes(among: 4096))
    // A walk has 36 to 57 times.
    #expect(many < few * 12, "\(many) among 64 times as many, \(few) otherwise")
  }
}
