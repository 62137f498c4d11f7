import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Many apps, tasks, states and cancellations at once, on a real ring whose completion queue is too small.
@Suite(.serialized) struct StressTests {
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
          group.addTask {
            var generator = SeededGenerator(seed: UInt64(seed * 4 + number) + 1)
            for _ in 0..<150 {
              let choice = Int.random(in: 0..<8, using: &generator)
              let offset = Int64.random(in: 0..<100, using: &generator) * 4096
              let limit = Int.random(in: 0..<400, using: &generator)
              let task = Task {
                let buffer = try IOBuffer(count: choice == 5 ? 40_000 : 4096)
                switch choice {
                case 0...3: _ = try await io.read(file, into: buffer, at: offset)
                case 4: try await io.write(file, from: buffer, at: offset)
                case 5: _ = try await io.read(file, into: buffer, at: offset, untilFull: true)
                case 6: _ = try await io.read(ends.readEnd, into: buffer, within: .microseconds(limit))
                default: _ = try await io.read(ends.readEnd, into: buffer)
                }
              }
              if choice == 7 || limit < 20 { task.cancel() }
              if limit > 390 { io.setState(IOState.allCases.randomElement(using: &generator) ?? .active) }
              if number == 3, limit == 200 { await Task.yield() }
              // Ended by itself, by its deadline, or by the cancellation; a suspended app's when it is resumed.
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
      #expect(total.count == 600)
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
      let broker = try makeBroker(backend) { $0.triesAtOnce = false }
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
