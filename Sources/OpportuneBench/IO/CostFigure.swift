import COpportune
import COpportuneBench
import Glibc
import Opportune
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
      var bare: [UInt32: Double] = [:]
      for batch in [UInt32(1), 32] {
        bare[batch] = try await point(&report, "bare-batch-\(batch)", load, rival: nil) { count in
          opp_bench_bare(count, batch, fd, size)
        }
        _ = try await point(&report, "c-layer-batch-\(batch)", load, rival: bare[batch]) { count in
          opp_bench_ring(count, batch, fd, size)
        }
      }
      _ = try await point(&report, "c-owner-thread", load, rival: bare[1]) { opp_bench_handed_over($0, fd, size) }
      try await swiftPoint(&report, load, file, size, triesAtOnce: true, rival: bare[1])
      if fd >= 0 { try await swiftPoint(&report, load, file, size, triesAtOnce: false, rival: bare[1]) }
    }
    let bytes = opp_bench_ring_bytes(100_000)
    report.notes.append("cost: 100,000 requests over the C layer changed the bytes in use by \(bytes) in all")
  }

  /// As many requests as take about the window; the median rate.
  private func point(
    _ report: inout IOBenchReport, _ mode: String, _ load: String, rival: Double?, _ body: (UInt32) -> Int64
  ) async throws -> Double {
    let trial = body(2000)
    guard trial > 0 else {
      report.notes.append("cost, \(mode), \(load): skipped: \(String(cString: strerror(Int32(clamping: -trial))))")
      return 0
    }
    let count = UInt32(min(50_000_000, max(2000, Double(windowNanoseconds) / Double(trial) * 2000)))
    let rates = try await repeats("cost, \(load), \(mode)") { Double(count) * 1e9 / Double(max(1, body(count))) }
    return append(&report, mode, load, rates, rival)
  }

  @discardableResult
  private func append(
    _ report: inout IOBenchReport, _ mode: String, _ load: String, _ rates: [Double], _ rival: Double?
  ) -> Double {
    var result = IOResult(.cost, mode, load: load)
    result.operationsPerSecond = median(rates)
    result.operationsRange = range(rates)
    if let rival, rival > 0 { result.ratioToRival = median(rates) / rival }
    report.results.append(result)
    return median(rates)
  }

  private func swiftPoint(
    _ report: inout IOBenchReport, _ load: String, _ file: TestFile, _ size: UInt64, triesAtOnce: Bool, rival: Double?
  ) async throws {
    var configuration = IOConfiguration()
    configuration.triesAtOnce = triesAtOnce
    let broker = try IOBroker(configuration: configuration)
    let io = try broker.makeApp(named: "cost")
    let descriptor = try await io.open(file.path, .readOnly)
    let isRead = load != "nop"
    let mode = triesAtOnce && isRead ? "swift-async" : "swift-async-by-owner"
    let window = windowNanoseconds
    let rates = try await repeats("cost, \(load), \(mode)") {
      try await Task.detached {
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
    }
    append(&report, mode, load, rates, rival)
    try await io.close(descriptor)
    await broker.shutdown()
  }
}
