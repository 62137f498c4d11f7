import COpportune
import Glibc
import Opportune
import OpportuneBase
import SystemPackage

/// The five figures of the I/O broker, in one run.
package struct IOBench: Bench {
  package let context: BenchContext<IOBenchOptions>

  package init(_ context: BenchContext<IOBenchOptions>) { self.context = context }

  /// - Throws: where there is nothing to report; a figure that fails is else a note in the report.
  package func run() async throws -> IOBenchReport {
    var report = IOBenchReport(machine: .current(), seconds: options.seconds, repeats: options.repeats)
    let file = try await TestFile(options)
    var failure: (any Error)?
    for figure in options.figures where !isInterrupted() {
      do {
        try await measure(figure, &report, file)
      } catch {
        report.notes.append("\(figure.rawValue): failed, what is missing was not measured: \(error)")
        failure = error
      }
    }
    report.wasInterrupted = isInterrupted()
    if let failure, report.results.isEmpty { throw failure }
    return report
  }

  private func measure(
    _ figure: IOBenchOptions.Figure, _ report: inout IOBenchReport, _ file: TestFile
  ) async throws {
    switch figure {
    case .storage: try await measureStorage(&report, file)
    case .cost: try await measureCost(&report, file)
    case .fio: try await measureBesideFio(&report, file)
    case .echo: try await measureEcho(&report)
    case .rates: try await measureRates(&report, file)
    }
  }

  /// The repeats of one point, unless Ctrl-C came.
  func repeats<Value>(_ name: String, _ body: () async throws -> Value) async throws -> [Value] {
    var values: [Value] = []
    for number in 0..<options.repeats where !isInterrupted() {
      progress("\(name), repeat \(number + 1) of \(options.repeats)")
      values.append(try await body())
    }
    return values
  }

  /// The repeats of points that are compared: in turns, each second one backwards, so that none has the
  /// machine's better minutes to itself; unless Ctrl-C came. A rival that fails is a note, and has no values.
  func turns<Value>(_ report: inout IOBenchReport, _ points: [IOPoint<Value>]) async throws -> [[Value]] {
    var values = points.map { _ in [Value]() }
    var failed: Set<Int> = []
    for number in 0..<options.repeats {
      for index in number % 2 == 0 ? Array(points.indices) : points.indices.reversed() {
        if isInterrupted() || failed.contains(index) { continue }
        let point = points[index]
        progress("\(point.name), repeat \(number + 1) of \(options.repeats)")
        do {
          values[index].append(try await point.measure())
        } catch  where point.isRival {
          report.notes.append("\(point.name): failed: \(error)")
          values[index] = []
          failed.insert(index)
        }
      }
    }
    return values
  }

  var windowNanoseconds: UInt64 { UInt64(options.seconds * 1e9) }
}

/// One of the points that are measured in turns.
struct IOPoint<Value> {
  let name: String
  /// A program from elsewhere, without which the others are measured all the same.
  var isRival = false
  let measure: () async throws -> Value
}

/// A file of real blocks on the device.
struct TestFile: Sendable {
  private let file: ScratchFile
  let size: Int64

  /// For whom it is open; other programs too.
  var path: FilePath { FilePath(file.path) }

  init(_ options: IOBenchOptions) async throws {
    file = try ScratchFile(in: options.folder)
    size = Int64(options.fileMebibytes) << 20
    try await fill(options.fileMebibytes)
  }

  private func fill(_ mebibytes: Int) async throws {
    let broker = try IOBroker()
    let io = try broker.makeApp(named: "setup")
    let file = try await io.open(path, .writeOnly, options: .direct)
    let buffer = try IOBuffer(count: 1 << 20)
    try buffer.withBytes { bytes in
      for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: index &* 31) }
    }
    for offset in 0..<Int64(mebibytes) { try await io.write(file, from: buffer, at: offset << 20) }
    try await io.synchronize(file)
    try await io.close(file)
    await broker.shutdown()
  }
}

/// Offsets for one task.
struct Offsets {
  private var state: UInt64

  init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

  mutating func next(_ size: Int64, _ block: Int64) -> Int64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return Int64(state >> 20) % (size / block) * block
  }
}

/// Counts of many tasks, each its own; read when they have ended.
final class OperationCount: @unchecked Sendable {
  // Sendable: written by one task, read after it was awaited.
  var operations = 0
  var bytes = 0
}
