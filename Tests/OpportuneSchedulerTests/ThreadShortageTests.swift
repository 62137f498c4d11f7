import COpportune
import Foundation
import Logging
import TestSupport
import Testing

@testable import OpportuneScheduler

/// Threads that the kernel refuses once the scheduler runs.
@Suite(.bounded, .timeLimit(.minutes(2))) struct ThreadShortageTests {
  /// What goes wrong.
  enum Shortage: CaseIterable, Sendable {
    /// The kernel gives no thread.
    case refused
    /// It gives one, on which the worker gets no memory, and ends.
    case ends
  }

  // R-CPU-02 R-SYS-03
  @Test(arguments: Shortage.allCases) func workersAreTriedForEverMoreSeldom(shortage: Shortage) async throws {
    let (isShort, starts) = (Flag(), Record<UInt64>())
    let said = LogLines()
    let engine = try Engine(SchedulerConfiguration(workers: 1), said.logger) {
      name, stack, body, context in
      guard isShort.isUp, name.contains("-fg") else { return opp_thread_start(name, stack, body, context) }
      // Then all is well again.
      if starts.count == 7 { return opp_thread_start(name, stack, body, context) }
      starts.add(opp_now_ns())
      if shortage == .refused { return -EAGAIN }
      return opp_thread_start(
        name, stack, { Late.run($0) }, Unmanaged.passRetained(Late(body, context)).toOpaque())
    }
    isShort.raise()
    let app = try engine.makeApp(named: "app", band: .foreground)
    // Both workers are blocked until a third has run a job.
    let gate = DispatchSemaphore(value: 0)
    for _ in 0..<2 { try app.submit { gate.wait() } }
    try app.submit { for _ in 0..<2 { gate.signal() } }
    let tried = await starts.reaching(7)
    // Others may be started before the first has ended.
    let early = shortage == .ends ? 3 : 0
    for (number, pause) in zip(tried.dropFirst(), tried).map({ $0 - $1 }).dropFirst(early).enumerated() {
      #expect(pause >= 1_000_000 << UInt64(number), "pause \(number) is \(pause) ns")
    }
    // It is said on a worker: where there are no threads, libdispatch would keep the monitor until there are.
    let line = try #require(await said.record.reaching(1).first)
    #expect(line.message == "no thread for a worker" && line.level == .warning)
    #expect(line.thread.hasPrefix("opportune-fg") && line.metadata["workers"] != nil, "\(line)")
    await engine.end()
  }

  /// Runs a worker on a thread that has given its registrations back already, as it ends.
  private final class Late: @unchecked Sendable {
    private let body: @convention(c) (UnsafeMutableRawPointer?) -> Void
    private let context: UnsafeMutableRawPointer
    private let key = ThreadEnd()

    init(
      _ body: @escaping @convention(c) (UnsafeMutableRawPointer?) -> Void, _ context: UnsafeMutableRawPointer
    ) {
      (self.body, self.context) = (body, context)
    }

    static func run(_ pointer: UnsafeMutableRawPointer?) {
      guard let pointer else { return }
      let late = Unmanaged<Late>.fromOpaque(pointer).takeRetainedValue()
      var config = opp_core_config()
      config.max_apps = 1
      var core: OpaquePointer?
      guard opp_core_create(&config, &core) == 0, let core else { return }
      var error: Int32 = 0
      _ = opp_thread_producer(core, 0, &error)
      opp_core_destroy(core, nil, nil)
      late.key.atEnd { late.body(late.context) }
    }
  }
}
