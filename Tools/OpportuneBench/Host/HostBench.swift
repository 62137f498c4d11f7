import OpportuneHost
import ToolSupport

/// What `opportune bench host` is to measure.
package struct HostBenchOptions: Sendable {
  package enum Figure: String, Sendable, CaseIterable { case front, switches, memory, idle }

  let figures: [Figure]
  let loads: [HostLoad]
  let contenders: [HostContender]
  /// Of each window of the front figure.
  let seconds: Double
  let repeats: Int
  /// Requests a second.
  let rate: Int
  let apps: Int
  /// The limit of the memory figure.
  let mebibytes: Int
  /// Seconds from when all is held to the start of the program in front.
  let pause: Double
  /// Of the memory figure.
  let swapPlace: SwapSpace.Place
  /// The file of the command that makes checkpoints; `nil`: they are not measured.
  let criu: String?
  let folder: String

  /// - Throws: ``BenchError`` for the first value that is unknown or out of range.
  package init(
    figures: [String] = [], loads: [String] = [], contenders: [String] = [], seconds: Double = 10,
    repeats: Int = 3, rate: Int = 2000, apps: Int = 200, mebibytes: Int = 1024,
    pause: Double = 5, swapPlace: String = "file", criu: String? = nil, folder: String = "/var/tmp"
  ) throws(BenchError) {
    self.figures = try BenchError.figures(figures)
    self.loads = try BenchError.figures(ReportTable.unique(loads), of: "--load")
    self.contenders = try BenchError.figures(ReportTable.unique(contenders), of: "--contender")
    self.seconds = try BenchError.check(seconds, "--seconds", 0.5...600)
    self.repeats = try BenchError.check(repeats, "--repeats", 1...100)
    self.rate = try BenchError.check(rate, "--rate", 100...20_000)
    self.apps = try BenchError.check(apps, "--apps", 1...2000)
    self.mebibytes = try BenchError.check(mebibytes, "--mebibytes", 256...65_536)
    self.pause = try BenchError.check(pause, "--pause", 0...60)
    guard let place = SwapSpace.Place(rawValue: swapPlace) else {
      throw .invalid(
        "--swap-on", swapPlace, expected: SwapSpace.Place.allCases.map(\.rawValue).joined(separator: " or "))
    }
    self.swapPlace = place
    if let criu { try BenchError.checkProgram(criu, "--criu") }
    self.criu = criu
    self.folder = try BenchError.checkFolder(folder)
  }

  /// What a program of the memory figure may have.
  static let mebibytes = 1...65_536
  /// For what the kernel counts beyond what the programs behind hold.
  static let slack = 48
  /// MiB of each program behind in the memory figure.
  var heldBehind: Int { (mebibytes - Self.slack) / HostMemoryRow.programs }
  /// MiB of the program in front.
  var wantedInFront: Int { mebibytes / 4 }
}

/// Real programs as apps of `opportune host`, beside the same programs without it.
package struct HostBench: BlockingBench {
  package typealias Outcome = HostBenchReport

  package let context: BenchContext<HostBenchOptions>

  package init(_ context: BenchContext<HostBenchOptions>) { self.context = context }

  /// Figures whose programs are not there are left out, and named in the report.
  package func measure() throws -> HostBenchReport {
    var report = HostBenchReport(machine: .current())
    HostedProgram.inheritNothing()
    let folder = try ScratchFolder(in: options.folder)
    for figure in options.figures where !isInterrupted() {
      let missing = programs(of: figure).filter { ProgramFile.find($0).path == nil }
      guard missing.isEmpty else {
        report.skipped.append(
          "\(figure.rawValue): not in PATH: \(missing.joined(separator: ", ")); "
            + "scripts/prepare redis-server stress-ng gcc installs them")
        continue
      }
      switch figure {
      case .front: report.front = try measureFront(folder.path, &report.skipped)
      case .switches:
        report.results += try measureSwitches(folder.path)
        if let criu = options.criu {
          if !isInterrupted() { report.results += try measureCheckpoints(folder.path, by: criu) }
        } else {
          report.skipped.append("checkpoints of switches: --criu names no command that makes them")
        }
      case .memory: report.memory = try measureMemory(folder.path, &report.skipped)
      case .idle: report.results += try measureIdle(folder.path)
      }
    }
    for line in report.skipped { progress("skipped: \(line)") }
    report.wasInterrupted = isInterrupted()
    return report
  }

  private func programs(of figure: HostBenchOptions.Figure) -> [String] {
    switch figure {
    case .front: ["redis-server"] + (options.loads.map(\.program) as [String])
    case .switches: ["redis-server"]
    case .memory: []
    case .idle: ["sleep"]
    }
  }
}
