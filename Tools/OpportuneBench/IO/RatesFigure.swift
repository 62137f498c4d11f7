import COpportune
import Opportune
import SystemPackage

/// Figure 5: what a limit lets through, against what it says.
extension IOBench {
  func measureRates(_ report: inout IOBenchReport, _ file: TestFile) async throws {
    let free = try await rate(DevicePolicy(cap: .none), file, 64 << 10)
    let half = free.bytes / 2
    let seconds = max(options.seconds, 2)
    report.notes.append(
      "rates: over \(seconds) s; without a limit \(Int(free.bytes / 1e6)) MB/s in reads of 64 KiB")
    for limit in [1e6, 10e6, 100e6, half] where limit <= half && limit >= 1e5 {
      let policy = DevicePolicy(
        cap: .none, bytes: .init(perSecond: Int(limit), burst: max(1, Int(limit / 100))))
      let measured = try await repeats("rates, \(Int(limit)) B/s") {
        try await rate(policy, file, 64 << 10).bytes
      }
      append(&report, "bytes-\(Int(limit))", measured.map { $0 }, limit, isBytes: true)
    }
    for limit in [100.0, 1000, 10_000] {
      let policy = DevicePolicy(
        cap: .none, operations: .init(perSecond: Int(limit), burst: max(1, Int(limit / 100))))
      let measured = try await repeats("rates, \(Int(limit)) op/s") {
        try await rate(policy, file, 4096).operations
      }
      append(&report, "operations-\(Int(limit))", measured, limit, isBytes: false)
    }
  }

  private func append(
    _ report: inout IOBenchReport, _ mode: String, _ values: [Double], _ limit: Double, isBytes: Bool
  ) {
    guard !values.isEmpty else { return }
    var result = IOResult(.rates, mode)
    if isBytes {
      result.megabytesPerSecond = median(values) / 1e6
    } else {
      result.operationsPerSecond = median(values)
    }
    result.ratioToRival = median(values) / limit
    result.ratioRange = range(values.map { $0 / limit })
    report.results.append(result)
  }

  private func rate(
    _ policy: DevicePolicy, _ file: TestFile, _ block: Int
  ) async throws -> (bytes: Double, operations: Double) {
    var configuration = IOConfiguration()
    configuration.storage = policy
    let broker = try IOBroker(configuration: configuration)
    let io = try broker.makeApp(named: "limited", state: .background)
    let descriptor = try await io.open(file.path, .readOnly, options: .direct)
    let start = opp_now_ns() + 500_000_000  // the burst is over by then
    let end = start + UInt64(max(options.seconds, 2) * 1e9)
    let counted = try await withThrowingTaskGroup(of: (Int, UInt64).self) { group in
      for number in 0..<8 {
        group.addTask {
          let buffer = try IOBuffer(count: block)
          var offsets = Offsets(UInt64(number) + 1)
          var count = 0
          while true {
            _ = try await io.read(descriptor, into: buffer, at: offsets.next(file.size, Int64(block)))
            let now = opp_now_ns()
            if now >= end { return (count, now) }
            if now >= start { count += 1 }
          }
        }
      }
      return try await group.reduce(0) { $0 + $1.0 }
    }
    let seconds = Double(end - start) / 1e9
    try await io.close(descriptor)
    await broker.shutdown()
    return (Double(counted * block) / seconds, Double(counted) / seconds)
  }
}
