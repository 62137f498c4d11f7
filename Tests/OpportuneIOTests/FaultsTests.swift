import Foundation
import Synchronization
import SystemPackage
import TestSupport
import Testing

@testable import OpportuneIO

/// Errors and half-done work forced at the system-call layer.
@Suite(.bounded) struct FaultsTests {
  /// Answers by turns: each request gets the next; nil lets it through.
  private final class Script: Sendable {
    private let answers: [Int32?]
    private let code: UInt8
    private let next = Atomic<Int>(0)

    init(code: UInt8, _ answers: [Int32?]) {
      self.code = code
      self.answers = answers
    }

    func answer(_ code: UInt8) -> Int32? {
      guard code == self.code else { return nil }
      let index = next.wrappingAdd(1, ordering: .relaxed).oldValue
      return index < answers.count ? answers[index] : nil
    }

    var asked: Int { next.load(ordering: .relaxed) }
  }

  private static let read: UInt8 = 1
  private static let write: UInt8 = 2
  private static let fsync: UInt8 = 7

  private func io(_ backend: IOConfiguration.Backend, _ script: Script, _ state: IOState = .active) throws
    -> AppIO
  {
    try makeBroker(backend) { $0.fault = { script.answer($0.code) } }.makeApp(named: "faults", state: state)
  }

  @Test(arguments: backends, [IOState.active, .background])
  func interruptionsAreTriedAgain(backend: IOConfiguration.Backend, state: IOState) async throws {
    let script = Script(code: Self.read, [-EINTR, -EINTR, -EAGAIN, nil])
    let bytes = try await io(backend, script, state).readFile("/proc/self/status")
    #expect(bytes.count > 100)
    #expect(script.asked >= 4)
  }

  @Test(arguments: backends)
  func endlessRefusalsAreErrors(backend: IOConfiguration.Backend) async throws {
    let script = Script(code: Self.fsync, Array(repeating: -EAGAIN, count: 100))
    let io = try io(backend, script)
    let file = try await io.open("/dev/null", .readWrite)
    #expect(await code { try await io.synchronize(file) } == .system(.resourceTemporarilyUnavailable))
    #expect(script.asked == 17)
    try await io.close(file)
  }

  // The device is full half-way.
  @Test(arguments: backends)
  func noSpaceIsAnErrorWithWhatWasDone(backend: IOConfiguration.Backend) async throws {
    let script = Script(code: Self.write, [100, -ENOSPC])
    let io = try io(backend, script)
    let file = try await io.open("/dev/null", .writeOnly)
    do {
      try await io.write(file, from: try IOBuffer(count: 1000), at: 0)
      Issue.record("no error")
    } catch {
      #expect(error.code == .system(.noSpace))
      #expect(error.message.contains("100 of 1000"))
    }
    try await io.close(file)
  }

  @Test(arguments: backends)
  func shortWritesGoOn(backend: IOConfiguration.Backend) async throws {
    try await withFolder { folder in
      let offsets = Numbers()
      let broker = try makeBroker(backend) {
        $0.fault = { op in
          guard op.code == Self.write else { return nil }
          offsets.add(Int(op.offset))
          return op.offset < 900 ? 300 : nil
        }
      }
      let io = try broker.makeApp(named: "short")
      let file = try await io.open(folder.appending("short"), .readWrite, options: [.create])
      #expect(try await io.write(file, from: try IOBuffer(count: 1000), at: 0) == 1000)
      #expect(offsets.values == [0, 300, 600, 900])
      #expect(try await io.status(file).size == 1000)
      try await io.close(file)
    }
  }

  @Test(arguments: backends)
  func shortReadsAreReturnedOrGoOn(backend: IOConfiguration.Backend) async throws {
    let io = try io(backend, Script(code: Self.read, [5, 5, nil]))
    let file = try await io.open("/dev/zero", .readOnly)
    let buffer = try IOBuffer(count: 100)
    #expect(try await io.read(file, into: buffer, at: 0) == 5)
    #expect(try await io.read(file, into: buffer, at: 0, untilFull: true) == 100)
    try await io.close(file)
  }

  @Test(arguments: backends)
  func refusedPrioritiesAreLeftOut(backend: IOConfiguration.Backend) async throws {
    let priorities = Numbers()
    let broker = try makeBroker(backend) {
      $0.kernelPriorities = .idleBackground
      $0.fault = { op in
        guard op.code == Self.read else { return nil }
        priorities.add(Int(op.priority))
        return op.priority == 1 ? -EPERM : nil
      }
    }
    let foreground = try broker.makeApp(named: "foreground")
    let background = try broker.makeApp(named: "background", state: .background)
    _ = try await background.readFile("/proc/self/status")
    #expect(Set(priorities.values) == [3])
    #expect(try await foreground.readFile("/proc/self/status").count > 0)
    #expect(Set(priorities.values) == [3, 1, 0])
    #expect(priorities.values.filter { $0 == 1 }.count == 1)
  }

  /// EPERM may be the file's: of one that is sealed, or immutable since it was opened.
  // R-DISK-01
  @Test(arguments: [IOState.active, .background])
  func whatAFileRefusesCostsNobodysPriority(state: IOState) async throws {
    let priorities = Numbers()
    let broker = try makeBroker(.threads) {
      $0.kernelPriorities = .raiseForeground
      $0.fault = { op in
        if op.code == Self.read { priorities.add(Int(op.priority)) }
        return op.code == Self.write ? -EPERM : nil
      }
    }
    let (io, other) = (try broker.makeApp(named: "writes", state: state), try broker.makeApp(named: "reads"))
    try await withFolder { folder in
      let file = try await io.open(folder.appending("file"), .readWrite, options: .create)
      let error = await code { try await io.write(file, from: try IOBuffer(count: 10), at: 0) }
      #expect(error == .system(.notPermitted))
      try await io.close(file)
    }
    _ = try await other.readFile("/proc/self/status")
    #expect(Set(priorities.values) == [1])
  }

  @Test(arguments: [IOConfiguration.KernelPriorities.none, .raiseForeground])
  func prioritiesAreAsConfigured(priorities: IOConfiguration.KernelPriorities) async throws {
    let seen = Numbers()
    let broker = try makeBroker(.threads) {
      $0.kernelPriorities = priorities
      $0.fault = { op in
        if op.code == Self.read { seen.add(Int(op.priority)) }
        return nil
      }
    }
    _ = try await broker.makeApp(named: "f").readFile("/proc/self/status")
    _ = try await broker.makeApp(named: "b", state: .background).readFile("/proc/self/status")
    #expect(Set(seen.values) == (priorities == .none ? [0] : [0, 1]))
  }
}
