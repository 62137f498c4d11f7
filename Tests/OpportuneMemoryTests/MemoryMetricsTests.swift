import MetricsTestKit
import TestSupport
import Testing

@testable import OpportuneMemory

@Suite(.bounded) struct MemoryMetricsTests {
  // R-MEM-15
  @Test func metricsAreTheLedgersAndTheProcessAsAWhole() throws {
    let metrics = TestMetrics()
    let broker = try makeBroker()
    let apps = ["mail", "mail", "front"].map { broker.makeMemory(named: $0, standing: .background) }
    let block = try apps[0].allocate(bytes: pageSize)
    let regions = try apps.map { try $0.purgeable(of: UInt8.self, count: 1) }
    // In no ledger, and in the process.
    let plain = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096 * pageSize, alignment: 16)
    defer { plain.deallocate() }
    plain.initializeMemory(as: UInt8.self, repeating: 1)
    var reporter = try MemoryMetricsReporter(to: metrics)
    reporter.report(broker)
    let page = Int64(pageSize)
    func bytes(_ app: String, _ kind: String) throws -> Double? {
      try metrics.expectGauge("opportune_memory_bytes", [("app", app), ("kind", kind)]).lastValue
    }
    #expect(try bytes("mail", "dirty") == Double(page) && bytes("mail", "volatile") == Double(2 * page))
    #expect(try bytes("front", "volatile") == Double(page) && bytes("front", "dirty") == 0)
    let dirty = try metrics.expectGauge("opportune_memory_process_bytes", [("kind", "dirty")])
    #expect(dirty.lastValue.map { $0 >= Double(4096 * page) } == true)
    try #require(broker.purge(.max) == UInt64(3 * page))
    let more = UnsafeMutableRawBufferPointer.allocate(byteCount: 4096 * pageSize, alignment: 16)
    defer { more.deallocate() }
    more.initializeMemory(as: UInt8.self, repeating: 1)
    for _ in 0..<2 { reporter.report(broker) }
    #expect(try bytes("mail", "purged") == Double(2 * page) && bytes("mail", "volatile") == 0)
    #expect(try metrics.expectCounter("opportune_memory_purged_bytes").values == [3 * page])
    #expect(try metrics.expectCounter("opportune_memory_purged_regions").values == [3])
    #expect(dirty.values.allSatisfy { $0 == dirty.values.first }, "it is sampled seldom")
    withExtendedLifetime((block, regions)) {}
  }
}
