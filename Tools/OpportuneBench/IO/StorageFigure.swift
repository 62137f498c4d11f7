import COpportune
import Opportune
import OpportuneBase
import Synchronization
import SystemPackage

/// Figure 1: foreground reads beside background ones.
extension IOBench {
  private struct Mode {
    var name: String
    var policy: DevicePolicy
    var priorities = IOConfiguration.KernelPriorities.none
  }

  private enum Load: String, CaseIterable {
    case random64 = "4k-random-64"
    case mixed = "128k-sequential-32+4k-write-16"
  }

  private struct Window {
    var latency: Percentiles
    var operations: Double
    var megabytes: Double
  }

  /// With `target` for the adaptive mode, in nanoseconds.
  private func modes(target: UInt64) throws -> [Mode] {
    var modes = [
      Mode(name: "uncontrolled", policy: .uncontrolled),
      Mode(name: "kernel-classes", policy: .uncontrolled, priorities: .idleBackground),
    ]
    for (foreground, background) in [(100, 0), (90, 10), (80, 20), (75, 25), (50, 50)] {
      let ratio = try Ratio(foreground: foreground, background: background)
      modes.append(
        Mode(
          name: "ratio-\(foreground):\(background)", policy: DevicePolicy(ratio: ratio, depth: 8, cap: .none))
      )
    }
    for cap in [1, 4, 8, 16] {
      modes.append(Mode(name: "cap-\(cap)", policy: DevicePolicy(cap: .fixed(cap))))
    }
    modes.append(
      Mode(name: "cap-4-unyielding", policy: DevicePolicy(cap: .fixed(4), yieldsToForeground: false)))
    modes.append(
      Mode(name: "strict", policy: DevicePolicy(ratio: .strict, cap: .fixed(4)), priorities: .raiseForeground)
    )
    modes.append(
      Mode(
        name: "adaptive",
        policy: DevicePolicy(cap: .adaptive(target: .nanoseconds(Int64(target)), maximum: 63))))
    return modes
  }

  func measureStorage(_ report: inout IOBenchReport, _ file: TestFile) async throws {
    report.notes.append(
      "storage: ratios at a depth of 8, where one foreground read at a time finds a place free; caps at 90:10; strict "
        + "with a cap of 4, and the kernel's priority for foreground")
    var alone: [Window] = []
    var windows: [[Window]] = []
    var points: [(load: Load, mode: Mode)] = []
    for number in 0..<options.repeats where !isInterrupted() {
      let turn = "repeat \(number + 1) of \(options.repeats)"
      progress("storage, alone, \(turn)")
      alone.append(try await window(Mode(name: "alone", policy: .storage), nil, file))
      let modes = try modes(target: UInt64(Percentiles.median(alone.map(\.latency)).p99 * 1150))
      points = Load.allCases.flatMap { load in modes.map { (load, $0) } }
      if windows.isEmpty { windows = points.map { _ in [] } }
      // Each second turn backwards, so that none has the machine's better minutes to itself.
      for index in number % 2 == 0 ? Array(points.indices) : points.indices.reversed() where !isInterrupted()
      {
        let (load, mode) = points[index]
        progress("storage, \(load.rawValue), \(mode.name), \(turn)")
        windows[index].append(try await window(mode, load, file))
      }
    }
    guard !alone.isEmpty else { return }
    var first = IOResult(.storage, "alone")
    first.latencyUs = .median(alone.map(\.latency))
    first.p99RangeUs = range(alone.map(\.latency.p99))
    first.p99RatioToAlone = 1
    report.results.append(first)
    let p99 = first.latencyUs?.p99 ?? 0
    var uncontrolled = 0.0
    for ((load, mode), windows) in zip(points, windows) where !windows.isEmpty {
      var result = IOResult(.storage, mode.name, load: load.rawValue)
      result.latencyUs = .median(windows.map(\.latency))
      result.p99RangeUs = range(windows.map(\.latency.p99))
      if p99 > 0 { result.p99RatioToAlone = (result.latencyUs?.p99 ?? 0) / p99 }
      result.operationsPerSecond = median(windows.map(\.operations))
      result.operationsRange = range(windows.map(\.operations))
      result.megabytesPerSecond = median(windows.map(\.megabytes))
      if mode.name == "uncontrolled" { uncontrolled = result.megabytesPerSecond ?? 0 }
      if uncontrolled > 0 { result.backgroundKept = (result.megabytesPerSecond ?? 0) / uncontrolled }
      report.results.append(result)
    }
  }

  func range(_ values: [Double]) -> [Double] { [values.min() ?? 0, values.max() ?? 0] }

  private func window(_ mode: Mode, _ load: Load?, _ file: TestFile) async throws -> Window {
    var configuration = IOConfiguration()
    configuration.storage = mode.policy
    configuration.kernelPriorities = mode.priorities
    configuration.entries = 512
    let scheduler = try Scheduler()
    let broker = try IOBroker(configuration: configuration)
    let foregroundApp = try scheduler.makeApp(named: "foreground")
    let backgroundApp = try scheduler.makeApp(named: "background", band: .background)
    let foreground = try broker.makeIO(for: foregroundApp)
    let background = try broker.makeIO(for: backgroundApp)
    let descriptor = try await foreground.open(file.path, .readWrite, options: .direct)
    let start = opp_now_ns() + 100_000_000  // what is first is not measured
    let end = start + windowNanoseconds
    var workers: [AppTask<OperationCount, any Error>] = []
    let tasks = load.map { backgroundTasks($0) } ?? []
    for (number, kind) in tasks.enumerated() {
      workers.append(
        backgroundApp.task {
          try await Self.work(kind, number, background, descriptor, file.size, start, end)
        })
    }
    let latency = try await foregroundApp.task {
      var histogram = TimeHistogram()
      var offsets = Offsets(77)
      let buffer = try IOBuffer(count: 4096)
      while opp_now_ns() < end {
        try await foregroundApp.clock.sleep(for: .milliseconds(1), tolerance: .zero)
        let offset = offsets.next(file.size, 4096)
        let sent = opp_now_ns()
        _ = try await foreground.read(descriptor, into: buffer, at: offset)
        let now = opp_now_ns()
        if sent >= start { histogram.record(now - sent) }
      }
      return histogram.percentiles
    }.value
    var operations = 0
    var bytes = 0
    for worker in workers {
      let count = try await worker.value
      operations += count.operations
      bytes += count.bytes
    }
    try await foreground.close(descriptor)
    await broker.shutdown()
    try await scheduler.shutdown()
    return Window(
      latency: latency, operations: Double(operations) / options.seconds,
      megabytes: Double(bytes) / options.seconds / 1e6)
  }

  private enum Kind {
    case randomRead, sequentialRead, randomWrite
  }

  private func backgroundTasks(_ load: Load) -> [Kind] {
    switch load {
    case .random64: Array(repeating: .randomRead, count: 64)
    case .mixed:
      Array(repeating: .sequentialRead, count: 32) + Array(repeating: .randomWrite, count: 16)
    }
  }

  private static func work(
    _ kind: Kind, _ number: Int, _ io: AppIO, _ descriptor: FileDescriptor, _ size: Int64, _ start: UInt64,
    _ end: UInt64
  ) async throws -> OperationCount {
    let count = OperationCount()
    let block = kind == .sequentialRead ? 128 << 10 : 4096
    let buffer = try IOBuffer(count: block)
    var offsets = Offsets(UInt64(number) + 1)
    // Thirty-two streams, each through its own part of the file.
    var position = size / 32 * Int64(number % 32) / Int64(block) * Int64(block)
    while true {
      switch kind {
      case .randomRead: _ = try await io.read(descriptor, into: buffer, at: offsets.next(size, 4096))
      case .randomWrite: try await io.write(descriptor, from: buffer, at: offsets.next(size, 4096))
      case .sequentialRead:
        _ = try await io.read(descriptor, into: buffer, at: position)
        position = (position + Int64(block)) % (size / Int64(block) * Int64(block))
      }
      let now = opp_now_ns()
      if now >= end { return count }
      if now >= start {
        count.operations += 1
        count.bytes += block
      }
    }
  }
}
