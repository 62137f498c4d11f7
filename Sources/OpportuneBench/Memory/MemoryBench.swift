import Glibc
import Opportune

/// What `opportune bench memory` is to measure.
public struct MemoryBenchOptions: Sendable {
  public enum Figure: String, Sendable, CaseIterable {
    case pin, purge, pressure, hibernate
  }

  public var figures: [Figure]
  public var repeats: Int
  /// Of purgeable memory, in regions of 1 MiB.
  public var mebibytes: Int
  /// Where files are made for figures 2 and 3, and removed again.
  public var folder: String
  /// The command to compare hibernation with.
  public var criu: String

  /// - Throws: ``BenchError`` for the first value that is unknown or out of range.
  public init(
    figures: [String] = [], repeats: Int = 5, mebibytes: Int = 1024, folder: String = ".",
    criu: String = "criu"
  ) throws(BenchError) {
    self.figures = try BenchError.figures(figures)
    guard (1...100).contains(repeats) else {
      throw .invalid("--repeats", "\(repeats)", expected: "a whole number from 1 to 100")
    }
    guard (4...65_536).contains(mebibytes) else {
      throw .invalid("--mebibytes", "\(mebibytes)", expected: "a whole number from 4 to 65536")
    }
    self.repeats = repeats
    guard !folder.isEmpty, access(folder, W_OK | X_OK) == 0 else {
      throw .invalid("--folder", folder, expected: "a folder that can be written")
    }
    self.mebibytes = mebibytes
    self.folder = folder
    self.criu = criu
  }
}

/// The figures of the memory broker, in one run. Opportune and its rival take turns within each repeat.
public struct MemoryBench {
  let options: MemoryBenchOptions
  let isInterrupted: @Sendable () -> Bool
  let progress: @Sendable (String) -> Void

  public init(
    options: MemoryBenchOptions, isInterrupted: @escaping @Sendable () -> Bool,
    progress: @escaping @Sendable (String) -> Void
  ) {
    self.options = options
    self.isInterrupted = isInterrupted
    self.progress = progress
  }

  public func run() throws -> MemoryBenchReport {
    var report = MemoryBenchReport(machine: .current(), repeats: options.repeats, mebibytes: options.mebibytes)
    for figure in options.figures where !isInterrupted() {
      switch figure {
      case .pin: report.results += try measurePin()
      case .purge: report.results += try measurePurge()
      case .pressure: report.results += try measurePressure(&report.skipped)
      case .hibernate: report.results += try measureHibernation(&report.skipped)
      }
    }
    for line in report.skipped { progress("skipped: \(line)") }
    report.wasInterrupted = isInterrupted()
    return report
  }

  /// Rows of one figure, each a median of its repeats; ratios are medians of the repeats' own ratios.
  func rows(
    _ figure: MemoryBenchOptions.Figure, unit: String, _ rivals: [(name: String, rival: String?)],
    _ once: () throws -> [Double]
  ) throws -> [MemoryResult] {
    var values: [[Double]] = []
    for number in 0..<options.repeats where !isInterrupted() {
      progress("\(figure.rawValue), repeat \(number + 1) of \(options.repeats)")
      values.append(try once())
    }
    guard !values.isEmpty else { return [] }
    return rivals.enumerated().map { index, row in
      let own = values.map { $0[index] }
      var result = MemoryResult(
        figure: figure.rawValue, mode: row.name, unit: unit, value: median(own), low: own.min() ?? 0,
        high: own.max() ?? 0)
      if let rival = row.rival, let at = rivals.firstIndex(where: { $0.name == rival }) {
        result.rival = rival
        result.ratioToRival = median(values.map { $0[index] / $0[at] })
        if rival == "mutex" { result.ratioToMutex = result.ratioToRival }
        if rival.hasPrefix("madvise") { result.ratioToMadvise = result.ratioToRival }
      }
      if unit == "ns" { result.ns = result.value }
      return result
    }
  }

  // MARK: Figure 1, access

  private func measurePin() throws -> [MemoryResult] {
    let region = try MemoryBroker().app(named: "bench").purgeable(of: UInt64.self, count: 512)
    let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    lock.initialize(to: pthread_mutex_t())
    pthread_mutex_init(lock, nil)
    defer {
      pthread_mutex_destroy(lock)
      lock.deallocate()
    }
    let table = Dictionary(uniqueKeysWithValues: (0..<1000).map { ($0, [UInt64](repeating: UInt64($0), count: 8)) })
    let rows: [(name: String, rival: String?)] = [
      ("pin + unpin", "mutex"), ("mutex", nil), ("dictionary under a mutex", nil),
    ]
    return try self.rows(.pin, unit: "ns", rows) {
      var sum: UInt64 = 0
      let pin = perOperation(2_000_000) { _ in
        sum &+= region.withContents { contents in
          switch contents {
          case .intact(let buffer): buffer[0]
          case .purged: 1
          }
        }
      }
      let mutex = perOperation(2_000_000) { index in
        pthread_mutex_lock(lock)
        sum &+= UInt64(index)
        pthread_mutex_unlock(lock)
      }
      let dictionary = perOperation(500_000) { index in
        pthread_mutex_lock(lock)
        sum &+= table[index % 1000]?[0] ?? 0
        pthread_mutex_unlock(lock)
      }
      guard sum != 0 else { throw BenchError(.wrongAnswer, "nothing was read") }
      return [pin, mutex, dictionary]
    }
  }

  private func perOperation(_ count: Int, _ body: (Int) -> Void) -> Double {
    let start = Clock.now()
    for index in 0..<count { body(index) }
    return Double(elapsed(from: start, to: Clock.now())) / Double(count)
  }

  // MARK: Figure 1, purging

  private var bytes: Int { options.mebibytes << 20 }

  private func measurePurge() throws -> [MemoryResult] {
    let broker = try MemoryBroker()
    let app = broker.app(named: "bench", standing: .suspended)
    let regions = try (0..<options.mebibytes).map { _ in try app.purgeable(of: UInt8.self, count: 1 << 20) }
    let blocks = try (0..<options.mebibytes).map { _ in try app.allocate(bytes: 1 << 20) }
    // Like the regions, of small pages only: huge ones are given back faster, and not in parts.
    for block in blocks { madvise(block.bytes.baseAddress, block.count, madviseNoHugePages) }
    let rows: [(name: String, rival: String?)] = [
      ("eager purge", "madvise, eager"), ("madvise, eager", nil), ("lazy purge", "madvise, lazy"),
      ("madvise, lazy", nil),
      ("access after an eager purge", "access after madvise"), ("access after madvise", nil),
      ("access after a lazy purge", nil),
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
      Double(bytes) / timed { for block in blocks { madvise(block.bytes.baseAddress, block.count, advice) } }.0 / 1e9
    }
    func rate(_ body: () -> Void) -> Double { Double(bytes) / timed(body).0 / 1e9 }
    access()
    touch()
    return try self.rows(.purge, unit: "GB/s", rows) {
      let eager = try purge(.eager)
      let bareEager = bare(MADV_DONTNEED)
      let again = rate(access)
      let bareAgain = rate(touch)
      let lazy = try purge(.lazy)
      let bareLazy = bare(madviseFree)
      let lazyAgain = rate(access)
      touch()
      return [eager, bareEager, lazy, bareLazy, again, bareAgain, lazyAgain]
    }
  }

  /// A byte in each page.
  private func fill(_ bytes: UnsafeMutableRawBufferPointer) {
    for offset in stride(from: 0, to: bytes.count, by: 4096) { bytes[offset] = 1 }
  }

  /// Regions are measured as they are given: zero.
  private func nothing(_ contents: UnsafeMutableBufferPointer<UInt8>) {}

  private func timed<Result>(_ body: () throws -> Result) rethrows -> (Double, Result) {
    let start = Clock.now()
    let result = try body()
    return (Double(elapsed(from: start, to: Clock.now())) / 1e9, result)
  }

  // MARK: Figure 3

  /// Of sizes up to that of the run, the least in any case.
  private func measureHibernation(_ skipped: inout [String]) throws -> [MemoryResult] {
    let figure = try HibernateFigure(folder: options.folder)
    let criu = CheckpointFigure(command: options.criu, folder: options.folder)
    let obstacle = criu.obstacle()
    if let obstacle { skipped.append("hibernate: CRIU: \(obstacle)") }
    let sizes = HibernateFigure.mebibytes.filter { $0 <= max(options.mebibytes, HibernateFigure.mebibytes[0]) }
    return try sizes.flatMap { size in
      let rows: [(name: String, rival: String?)] =
        [
          ("hibernate \(size) MiB", "write + fsync \(size) MiB"),
          ("hibernate \(size) MiB, I/O broker", "write + fsync \(size) MiB"), ("write + fsync \(size) MiB", nil),
          ("reanimate \(size) MiB", "read \(size) MiB"), ("reanimate \(size) MiB, I/O broker", "read \(size) MiB"),
          ("read \(size) MiB", nil),
        ]
        + (obstacle == nil
          ? [
            ("CRIU dump \(size) MiB", "write + fsync \(size) MiB"), ("CRIU restore \(size) MiB", "read \(size) MiB"),
          ] : [])
      var written: [Double] = []
      var results = try self.rows(.hibernate, unit: "MB/s", rows) {
        let sample = try figure.measure(mebibytes: size, seed: UInt64(written.count))
        written.append(sample.written)
        let bytes = Double(size << 20) / 1e6
        var seconds = [
          sample.hibernate, sample.brokeredHibernate, sample.plainWrite, sample.reanimate, sample.brokeredReanimate,
          sample.plainRead,
        ]
        if obstacle == nil { seconds += try criu.measure(mebibytes: size) }
        return seconds.map { bytes / $0 }
      }
      for index in results.indices { results[index].ratioToDisk = results[index].ratioToRival }
      if !results.isEmpty { results[0].bytesWritten = median(written) }
      return results
    }
  }

  // MARK: Figure 2

  /// A quarter of the budget is allocated in front: with it free, with it full of background caches, and with as much held by
  /// a process without the library, which the kernel swaps out or ends.
  private func measurePressure(_ skipped: inout [String]) throws -> [MemoryResult] {
    var configuration = MemoryConfiguration()
    configuration.limit = .budget(UInt64(bytes))
    configuration.gauge = try PressureGauge(critical: CriticalPoint(share: 1), margin: 0)
    let wanted = bytes / 4
    func allocate(_ broker: MemoryBroker) throws -> Double {
      let app = broker.app(named: "front")
      return try timed {
        let block = try app.allocate(bytes: wanted)
        fill(block.bytes)
      }.0 * 1e3
    }
    let plain = PlainPressure(folder: options.folder, held: options.mebibytes, wanted: options.mebibytes / 4)
    let ways = plain.ways()
    skipped += ways.skipped.map { "pressure: \($0)" }
    let free = "\(options.mebibytes / 4) MiB, free"
    let rows: [(name: String, rival: String?)] =
      [("\(options.mebibytes / 4) MiB, held by background", free), (free, nil)]
      + ways.possible.map { ("\(options.mebibytes / 4) MiB, held by a plain process, \($0.rawValue)", free) }
    return try self.rows(.pressure, unit: "ms", rows) {
      let free = try allocate(try MemoryBroker(configuration))
      let broker = try MemoryBroker(configuration)
      let behind = broker.app(named: "behind", standing: .background)
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
      return try [held, free]
        + ways.possible.map { try plain.measure($0) { try allocate(MemoryBroker(configuration)) } }
    }
  }
}

// Which Glibc's headers in Swift do not all have.
private let madviseFree: Int32 = 8
private let madviseNoHugePages: Int32 = 15
