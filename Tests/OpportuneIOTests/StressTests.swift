import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Many apps, tasks, states, cancellations and terminations at once, on files, pipes and sockets. The ring is
/// real, and its completion queue is too small.
@Suite(.bounded, .serialized) struct StressTests {
  // R-CARD-04, R-FTS-07
  @Test(arguments: backends, 0..<3)
  func everyRequestEndsExactlyOnce(backend: IOConfiguration.Backend, seed: Int) async throws {
    try await withFolder { folder in
      let broker = try makeBroker(backend) {
        $0.entries = 8
        $0.completions = 8
        $0.storage = DevicePolicy(
          ratio: .eightyToTwenty, depth: 64, cap: .adaptive(target: .microseconds(200)),
          operations: .init(perSecond: 200_000), chunk: 4096,
          queuedRequests: seed % 2 == 0 ? .follow : .stay)
        $0.suspendedSockets = .none  // else a connection takes its time
        $0.backgroundSockets = .none
      }
      let path = folder.appending("stress")
      let setup = try broker.makeApp(named: "setup")
      try await setup.writeFile(path, [UInt8](repeating: 3, count: 1 << 20))
      let ends = try FileDescriptor.pipe()
      let total = Numbers()
      let isOver = Numbers()
      try await withThrowingTaskGroup { group in
        for number in 0..<4 {
          let io = try broker.makeApp(named: "app\(number)", state: number % 2 == 0 ? .active : .background)
          let file = try await io.open(path, .readWrite)
          let listener = try await io.listen(on: .ipv4("127.0.0.1", port: 0))
          let address = try listener.address()
          let (server, client) = try await connectedPair(io)
          group.addTask {
            var generator = SplitMix64(seed: UInt64(seed * 4 + number) + 1)
            for _ in 0..<250 {
              let choice = Int.random(in: 0..<14, using: &generator)
              let offset = Int64.random(in: 0..<100, using: &generator) * 4096
              let limit = Int.random(in: 0..<400, using: &generator)
              let task = Task {
                let buffer = try IOBuffer(count: choice == 5 ? 40_000 : 4096)
                switch choice {
                case 0...3: _ = try await io.read(file, into: buffer, at: offset)
                case 4: try await io.write(file, from: buffer, at: offset)
                case 5: _ = try await io.read(file, into: buffer, at: offset, untilFull: true)
                case 6: _ = try await io.read(ends.readEnd, into: buffer, within: .microseconds(limit))
                case 7: _ = try await io.read(ends.readEnd, into: buffer)
                case 8: try await io.synchronize(file, dataOnly: limit % 2 == 0)
                case 9: try await io.close(try await io.open(path, .readOnly))
                case 10: try await io.send(client, from: buffer, within: .microseconds(limit * 10))
                case 11: _ = try await io.receive(server, into: buffer, within: .microseconds(limit * 10))
                case 12: try await io.close(try await listener.accept(within: .microseconds(limit * 10)))
                default: try await io.close(try await io.connect(to: address, within: .seconds(20)))
                }
              }
              if choice == 7 || limit < 20 { task.cancel() }
              if limit > 390 { io.setState(IOState.allCases.randomElement(using: &generator) ?? .active) }
              if number == 3, limit == 200 { await Task.yield() }
              // Ended by itself, by its deadline, or by the cancellation; a suspended app's when it is
              // resumed.
              if limit % 4 == 0 {
                io.setState(.active)
                _ = await task.result
              }
              total.add(1)
              watch(task, isOver)
            }
            io.setState(number % 2 == 0 ? .active : .background)
            if number == 3 { await io.terminate() }
          }
        }
        try await group.waitForAll()
      }
      try await eventually("\(total.count) ends") { isOver.count == total.count }
      let statistics = try await broker.statistics()
      #expect(statistics.storage.foregroundQueued + statistics.storage.backgroundQueued == 0)
      #expect(total.count == 1000)
      // Each once: more ends or fewer than there were requests would show.
      try await eventually("the last closes") {
        try await broker.statistics().apps.allSatisfy { $0.inFlight == 0 }
      }
      let classes = try await [broker.statistics().foreground, broker.statistics().background]
      #expect(
        classes.reduce(0) { $0 + $1.submitted }
          == classes.reduce(0) { $0 + $1.completed + $1.failed + $1.cancelled })
      await broker.shutdown()
      for end in [ends.readEnd, ends.writeEnd] { try end.close() }
    }

    func watch(_ task: Task<Void, any Error>, _ isOver: Numbers) {
      Task {
        _ = await task.result
        isOver.add(1)
      }
    }
  }

  /// Submissions that race with the end of the broker: each is answered or refused.
  @Test(arguments: backends)
  func submissionsDuringTheShutdownAreAnswered(backend: IOConfiguration.Backend) async throws {
    for _ in 0..<20 {
      let broker = try makeBroker(backend) { $0.triesInline = false }
      let io = try broker.makeApp(named: "late")
      await withTaskGroup { group in
        for _ in 0..<4 {
          group.addTask { _ = try? await io.readFile("/proc/self/status") }
        }
        group.addTask { await broker.shutdown() }
      }
      #expect(await code { _ = try await io.readFile("/proc/self/status") } == .unavailable)
    }
  }
}
