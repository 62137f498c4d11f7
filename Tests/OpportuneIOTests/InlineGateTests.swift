import Foundation
import Synchronization
import TestSupport
import Testing

@testable import OpportuneIO

/// The one protocol by which an app's end and a close wait for inline calls.
@Suite(.bounded) struct InlineGateTests {
  // R-FTS-07
  @Test func whoCameBeforeAClosingIsWaitedForAndNobodyElseComesIn() {
    let gate = Gate()
    let before = gate.closes
    #expect(gate.enter(since: before) == .inside)
    #expect(gate.callers == 1)
    let closed = gate.close()
    #expect(closed == gate.closes)
    #expect(closed != before)
    #expect(gate.isBusy)
    // Neither those of before, nor those that know of it.
    #expect(gate.enter(since: before) == .refused)
    #expect(gate.enter(since: closed) == .refused)
    #expect(gate.leave(), "the last to leave tells the reactor")
    #expect(!gate.isBusy)
    gate.stopWaiting()
    #expect(gate.enter(since: before) == .refused)
    #expect(gate.enter(since: closed) == .inside)
    #expect(!gate.leave(), "nobody waits")
  }

  /// A gate that the macros can take, as they copy.
  private final class Gate: Sendable {
    private let gate = InlineGate()
    var closes: UInt64 { gate.closes }
    var callers: Int { gate.callers }
    var isBusy: Bool { gate.isBusy }
    func enter(since closes: UInt64) -> InlineGate.Entry { gate.enter(since: closes) }
    func leave() -> Bool { gate.leave() }
    func close() -> UInt64 { gate.close() }
    func stopWaiting() { gate.stopWaiting() }
  }

  /// Whoever is inside when the gate was closed and found empty has come after that.
  // R-FTS-07
  @Test func nobodyIsInsideOnceItIsClosedAndEmpty() async {
    let shared = Shared()
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<3 {
        group.addTask {
          await onAThread {
            while !shared.isOver.load(ordering: .relaxed) {
              let closes = shared.gate.closes
              guard shared.gate.enter(since: closes) == .inside else { continue }
              if shared.mayBeInside.load(ordering: .acquiring) == 0 {
                shared.wrong.wrappingAdd(1, ordering: .relaxed)
              }
              _ = shared.gate.leave()
            }
          }
        }
      }
      await onAThread {
        for _ in 0..<300 {
          _ = shared.gate.close()
          while shared.gate.isBusy { sched_yield() }
          shared.mayBeInside.store(0, ordering: .releasing)
          shared.mayBeInside.store(1, ordering: .releasing)
          shared.gate.stopWaiting()
        }
        shared.isOver.store(true, ordering: .relaxed)
      }
    }
    #expect(shared.wrong.load(ordering: .relaxed) == 0)
  }

  private final class Shared: Sendable {
    let gate = Gate()
    let mayBeInside = Atomic(1)
    let wrong = Atomic(0)
    let isOver = Atomic(false)
  }
}
