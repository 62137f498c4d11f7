import COpportune
import COpportuneBench
import Glibc
import Opportune
import OpportuneBase
import SystemPackage

/// Figure 2: what the path costs, one thread, one request at a time or in batches.
extension IOBench {
  func measureCost(_ report: inout IOBenchReport, _ file: TestFile) async throws {
    let descriptor = open(file.path.string, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw BenchError(.system, "the test file cannot be opened") }
    defer { close(descriptor) }
    let size = UInt64(min(file.size, 16 << 20))
    var warm = [UInt8](repeating: 0, count: 1 << 20)
    for offset in 0..<16 { _ = pread(descriptor, &warm, 1 << 20, off_t(offset << 20)) }

    for (load, fd) in [("nop", Int32(-1)), ("4k-cached-read", descriptor)] {
      try await measureCost(&report, file, load, fd, size)
    }
    let bytes = opp_bench_ring_bytes(100_000)
    report.notes.append("cost: 100,000 requests over the C layer changed the bytes in use by \(bytes) in all")
  }

  /// Each way beside the bare ring that goes as it does, in turns.
  private func measureCost(
    _ report: inout IOBenchReport, _ file: TestFile, _ load: String, _ fd: Int32, _ size: UInt64
  ) async throws {
    let loops: [(mode: String, rival: String?, run: (UInt32) -> Int64)] = [
      ("bare-batch-1", nil, { opp_bench_bare($0, 1, fd, size) }),
      ("c-layer-batch-1", "bare-batch-1", { opp_bench_ring($0, 1, fd, size) }),
      ("bare-batch-32", nil, { opp_bench_bare($0, 32, fd, size) }),
      ("c-layer-batch-32", "bare-batch-32", { opp_bench_ring($0, 32, fd, size) }),
      ("c-owner-thread", "bare-batch-1", { opp_bench_handed_over($0, fd, size) }),
    ]
    var modes: [(name: String, rival: String?)] = []
    var points: [IOPoint<Double>] = []
    for loop in loops {
      guard let count = requests(of: loop.run, &report, "cost, \(loop.mode), \(load)") else { continue }
      modes.append((loop.mode, loop.rival))
      points.append(
        IOPoint(name: "cost, \(load), \(loop.mode)") { Double(count) * 1e9 / Double(max(1, loop.run(count))) }
      )
    }
    for triesInline in fd >= 0 ? [true, false] : [false] {
      let mode = triesInline ? "swift-async" : "swift-async-by-reactor"
      modes.append((mode, "bare-batch-1"))
      points.append(
        IOPoint(name: "cost, \(load), \(mode)") {
          try await swiftRate(file, size, triesInline, isRead: fd >= 0)
        })
    }
    let rates = try await turns(&report, points)
    for (index, mode) in modes.enumerated() where !rates[index].isEmpty {
      var result = IOResult(.cost, mode.name, load: load)
      result.setRates(rates[index], rival: modes.firstIndex { $0.name == mode.rival }.map { rates[$0] })
      report.results.append(result)
    }
  }

  /// As many requests as take about the window; none, and a note, where the machine refuses them.
  private func requests(of run: (UInt32) -> Int64, _ report: inout IOBenchReport, _ name: String) -> UInt32? {
    let trial = run(2000)
    guard trial > 0 else {
      report.notes.append("\(name): skipped: \(errorText(Int32(clamping: -trial)))")
      return nil
    }
    return UInt32(min(Double(UInt32.max), max(2000, Double(windowNanoseconds) / Double(trial) * 2000)))
  }

  private func swiftRate(
    _ file: TestFile, _ size: UInt64, _ triesInline: Bool, isRead: Bool
  ) async throws -> Double {
    var configuration = IOConfiguration()
    configuration.triesInline = triesInline
    let broker = try IOBroker(configuration: configuration)
    let io = try broker.makeApp(named: "cost")
    let descriptor = try await io.open(file.path, .readOnly)
    let window = windowNanoseconds
    let rate = try await Task.detached {
      let buffer = try IOBuffer(count: 4096)
      var offsets = Offsets(5)
      let start = opp_now_ns()
      var count = 0
      while true {
        for _ in 0..<64 {
          if isRead {
            _ = try await io.read(descriptor, into: buffer, at: offsets.next(Int64(size), 4096))
          } else {
            try await io.nop()
          }
        }
        count += 64
        let now = opp_now_ns()
        if now - start >= window { return Double(count) * 1e9 / Double(now - start) }
      }
    }.value
    try await io.close(descriptor)
    await broker.shutdown()
    return rate
  }
}
