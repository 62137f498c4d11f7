import Glibc
import Opportune
import OpportuneBase

/// What `opportune bench memory` is to measure.
package struct MemoryBenchOptions: Sendable {
  package enum Figure: String, Sendable, CaseIterable {
    case pin, cache, purge, pressure, hibernate
  }

  package var figures: [Figure]
  package var repeats: Int
  /// Of purgeable memory, in regions of 1 MiB.
  package var mebibytes: Int
  /// Where files are made for figure 3, and gone with the run.
  package var folder: String
  /// The command to compare hibernation with.
  package var criu: String

  /// - Throws: ``BenchError`` for the first value that is unknown or out of range.
  package init(
    figures: [String] = [], repeats: Int = 5, mebibytes: Int = 1024, folder: String = ".",
    criu: String = "criu"
  ) throws(BenchError) {
    self.figures = try BenchError.figures(figures)
    self.repeats = try BenchError.check(repeats, "--repeats", 1...100)
    self.mebibytes = try BenchError.check(mebibytes, "--mebibytes", 4...65_536)
    self.folder = try BenchError.checkFolder(folder)
    self.criu = criu
  }
}

/// The figures of the memory broker, in one run. Opportune and its rivals take turns within each repeat, and
/// in who is first.
package struct MemoryBench: BlockingBench {
  package typealias Outcome = MemoryBenchReport

  package let context: BenchContext<MemoryBenchOptions>

  package init(_ context: BenchContext<MemoryBenchOptions>) { self.context = context }

  package func measure() throws -> MemoryBenchReport {
    var report = MemoryBenchReport(
      machine: .current(), repeats: options.repeats, mebibytes: options.mebibytes)
    for figure in options.figures where !isInterrupted() {
      switch figure {
      case .pin: report.results += try measurePin()
      case .cache: report.results += try measureCache()
      case .purge: report.results += try measurePurge()
      case .pressure: report.results += try measurePressure(&report.skipped)
      case .hibernate: report.results += try measureHibernation(&report.skipped)
      }
    }
    for line in report.skipped { progress("skipped: \(line)") }
    report.wasInterrupted = isInterrupted()
    return report
  }

  /// What is measured, and what its value is divided by: the first is the rival of the report.
  struct Row {
    let name: String
    let rivals: [String]

    init(_ name: String, _ rivals: String...) {
      self.name = name
      self.rivals = rivals
    }
  }

  /// Rows of one figure, each a median of its repeats; ratios are medians of the repeats' own ratios.
  func rows(
    _ figure: MemoryBenchOptions.Figure, unit: String, _ rows: [Row],
    _ once: (_ repeat: Int) throws -> [Double]
  ) throws -> [MemoryResult] {
    var values: [[Double]] = []
    for number in 0..<options.repeats where !isInterrupted() {
      progress("\(figure.rawValue), repeat \(number + 1) of \(options.repeats)")
      values.append(try once(number))
    }
    guard !values.isEmpty else { return [] }
    return rows.enumerated().map { index, row in
      let own = values.map { $0[index] }
      var result = MemoryResult(
        figure: figure.rawValue, mode: row.name, unit: unit, value: median(own), low: own.min() ?? 0,
        high: own.max() ?? 0)
      for rival in row.rivals {
        guard let at = rows.firstIndex(where: { $0.name == rival }) else { continue }
        result.add(rival, median(values.map { $0[index] / $0[at] }))
      }
      if unit == "ns" { result.ns = result.value }
      return result
    }
  }

  /// Measures contenders one after the other, in every second repeat the last one first: who comes first
  /// finds the machine otherwise than who comes after.
  static func inTurns<Measured>(_ number: Int, _ contenders: [() throws -> Measured]) throws -> [Measured] {
    guard number % 2 == 1 else { return try contenders.map { try $0() } }
    return try contenders.reversed().map { try $0() }.reversed()
  }

  // MARK: Figure 1, purging

  private var bytes: Int { options.mebibytes << 20 }

  private func measurePurge() throws -> [MemoryResult] {
    let broker = try MemoryBroker()
    let app = broker.makeMemory(named: "bench", standing: .suspended)
    let regions = try (0..<options.mebibytes).map { _ in try app.purgeable(of: UInt8.self, count: 1 << 20) }
    let blocks = try (0..<options.mebibytes).map { _ in try app.allocate(bytes: 1 << 20) }
    // Like the regions, of small pages only: huge ones are given back faster, and not in parts.
    for block in blocks { madvise(block.bytes.baseAddress, block.count, madviseNoHugePages) }
    let rows = [
      Row("eager purge", "madvise, eager"), Row("madvise, eager"), Row("lazy purge", "madvise, lazy"),
      Row("madvise, lazy"), Row("access after an eager purge", "access after madvise"),
      Row("access after madvise"),
      Row("access after a lazy purge"),
    ]
    func touch() { for block in blocks { fill(block.bytes) } }
    func access() { for region in regions { region.withContents(orRecreate: nothing) { fill(.init($0)) } } }
    func purge(_ mode: PurgeMode) throws -> Double {
      let (seconds, given) = timed { broker.purge(.max, mode: mode) }
      guard given == UInt64(bytes) else {
        throw BenchError(.workLost, "\(given) of \(bytes) bytes were given back")
      }
      return Double(bytes) / seconds / 1e9
    }
    func bare(_ advice: Int32) -> Double {
      Double(bytes)
        / timed { for block in blocks { madvise(block.bytes.baseAddress, block.count, advice) } }.0 / 1e9
    }
    func rate(_ body: () -> Void) -> Double { Double(bytes) / timed(body).0 / 1e9 }
    access()
    touch()
    return try self.rows(.purge, unit: "GB/s", rows) { number in
      let eager = try Self.inTurns(number, [{ try purge(.eager) }, { bare(MADV_DONTNEED) }])
      let again = try Self.inTurns(number, [{ rate(access) }, { rate(touch) }])
      let lazy = try Self.inTurns(number, [{ try purge(.lazy) }, { bare(madviseFree) }])
      let lazyAgain = rate(access)
      touch()
      return eager + lazy + again + [lazyAgain]
    }
  }

  /// A byte in each page.
  private func fill(_ bytes: UnsafeMutableRawBufferPointer) {
    for offset in stride(from: 0, to: bytes.count, by: 4096) { bytes[offset] = 1 }
  }

  /// Regions are measured as they are given: zero.
  private func nothing(_ contents: UnsafeMutableBufferPointer<UInt8>) {}

  private func timed<Result>(_ body: () throws -> Result) rethrows -> (Double, Result) {
    let start = SystemClock.now()
    let result = try body()
    return (Double(elapsed(from: start, to: SystemClock.now())) / 1e9, result)
  }

  // MARK: Figure 3

  /// Of sizes up to that of the run, the least in any case.
  private func measureHibernation(_ skipped: inout [String]) throws -> [MemoryResult] {
    let figure = try HibernateFigure(folder: options.folder)
    let criu = CheckpointFigure(command: options.criu, folder: options.folder)
    let obstacle = criu.obstacle()
    if let obstacle { skipped.append("hibernate: CRIU: \(obstacle)") }
    let sizes = HibernateFigure.mebibytes.filter {
      $0 <= max(options.mebibytes, HibernateFigure.mebibytes[0])
    }
    return try sizes.flatMap { size in
      let (write, read) = ("write + fsync \(size) MiB", "read \(size) MiB")
      var rows = [
        Row("hibernate \(size) MiB", write), Row("hibernate \(size) MiB, I/O broker", write), Row(write),
        Row("reanimate \(size) MiB", read), Row("reanimate \(size) MiB, I/O broker", read), Row(read),
      ]
      if obstacle == nil {
        rows += [Row("CRIU dump \(size) MiB", write), Row("CRIU restore \(size) MiB", read)]
      }
      var written: [Double] = []
      var results = try self.rows(.hibernate, unit: "MB/s", rows) { number in
        let memory = try figure.memory(mebibytes: size, seed: UInt64(number))
        var contenders = [
          { try figure.cycle(memory, over: nil) }, { try figure.cycle(memory, over: figure.io) },
          { try figure.plain(memory) },
        ]
        if obstacle == nil { contenders.append { try criu.measure(mebibytes: size) } }
        let samples = try Self.inTurns(number, contenders)
        written.append(samples[0].written)
        let seconds =
          samples[..<3].map(\.hibernate) + samples[..<3].map(\.reanimate)
          + samples[3...].flatMap { [$0.hibernate, $0.reanimate] }
        return seconds.map { Double(size << 20) / 1e6 / $0 }
      }
      for index in results.indices { results[index].ratioToDisk = results[index].ratioToRival }
      if !results.isEmpty { results[0].bytesWritten = median(written) }
      return results
    }
  }

  // MARK: Figure 2

  /// A quarter of the budget is allocated in front: with it free, with it full of background caches, and with
  /// as much held by a process without the library, which the kernel swaps out or ends.
  private func measurePressure(_ skipped: inout [String]) throws -> [MemoryResult] {
    var configuration = MemoryConfiguration()
    configuration.limit = .budget(UInt64(bytes))
    configuration.gauge = try PressureGauge(critical: CriticalPoint(share: 1), margin: 0)
    let wanted = bytes / 4
    func allocate(_ broker: MemoryBroker) throws -> Double {
      let app = broker.makeMemory(named: "front")
      return try timed {
        let block = try app.allocate(bytes: wanted)
        fill(block.bytes)
      }.0 * 1e3
    }
    let plain = PlainPressure(held: options.mebibytes, wanted: options.mebibytes / 4)
    let ways = plain.ways()
    skipped += ways.skipped.map { "pressure: \($0)" }
    let free = "\(options.mebibytes / 4) MiB, free"
    let rows =
      [Row("\(options.mebibytes / 4) MiB, held by background", free), Row(free)]
      + ways.possible.map {
        Row("\(options.mebibytes / 4) MiB, held by a plain process, \($0.rawValue)", free)
      }
    func allocateWhereHeld() throws -> Double {
      let broker = try MemoryBroker(configuration: configuration)
      let behind = broker.makeMemory(named: "behind", standing: .background)
      let regions = try (0..<(options.mebibytes - 1)).map { _ in
        let region = try behind.purgeable(of: UInt8.self, count: 1 << 20)
        region.withContents(orRecreate: nothing) { fill(.init($0)) }
        return region
      }
      let held = try allocate(broker)
      guard broker.purges.bytes >= UInt64(wanted - (2 << 20)) else {
        throw BenchError(.workLost, "only \(broker.purges.bytes) bytes were taken for \(wanted)")
      }
      withExtendedLifetime(regions) {}
      return held
    }
    return try self.rows(.pressure, unit: "ms", rows) { number in
      try Self.inTurns(
        number,
        [allocateWhereHeld, { try allocate(MemoryBroker(configuration: configuration)) }]
          + ways.possible.map { way in
            { try plain.measure(way) { try allocate(MemoryBroker(configuration: configuration)) } }
          })
    }
  }
}

// Which Glibc's headers in Swift do not all have.
private let madviseFree: Int32 = 8
private let madviseNoHugePages: Int32 = 15
