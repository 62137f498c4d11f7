import Glibc
import OpportuneBase

/// What the machine and the process had used at one moment.
struct UsageReading: Sendable {
  var time: Nanoseconds = 0
  /// CPU time of all programs, and what the host took, in nanoseconds (steps of 10 ms).
  var machineBusy: Nanoseconds = 0
  var stolen: Nanoseconds = 0
  /// CPU time of this process.
  var process: Nanoseconds = 0
  var backgroundWork: UInt64 = 0
  var backgroundCPU: Nanoseconds = 0
  /// Context switches of this process's threads, and its resident memory in bytes.
  var switches: UInt64 = 0
  var resident: UInt64 = 0
  /// CPU time of a fixed piece of work ÷ what it takes undisturbed.
  var canary = 1.0
}

/// One slice of a window, about 100 ms.
struct Slice: Sendable {
  let begin: UsageReading
  let end: UsageReading

  var seconds: Double { Double(elapsed(from: begin.time, to: end.time)) / 1e9 }

  func usage(cores: Int) -> WindowUsage {
    let process = Double(elapsed(from: begin.process, to: end.process))
    let stolen = Double(elapsed(from: begin.stolen, to: end.stolen))
    let busy = Double(elapsed(from: begin.machineBusy, to: end.machineBusy))
    return WindowUsage(
      work: Double(end.backgroundWork &- begin.backgroundWork), capacity: seconds * 1e9 * Double(cores),
      process: process, backgroundJobs: Double(elapsed(from: begin.backgroundCPU, to: end.backgroundCPU)),
      others: max(0, busy - process) + stolen)
  }
}

/// The one rule, for all contenders, by which a slice is left out: the host took the CPU away.
struct NoiseRule: Sendable, Equatable {
  /// Largest share of the machine that the host may take in a slice.
  var stolenShareMax = 0.05
  /// How much longer than undisturbed the canary's work may take.
  var canaryMax = 1.5
  /// Largest share of slices that may be left out before the run is invalid.
  var invalidShareMax = 0.30

  func admits(_ slice: Slice, cores: Int) -> Bool {
    let stolen = Double(elapsed(from: slice.begin.stolen, to: slice.end.stolen)) / 1e9
    return stolen <= stolenShareMax * slice.seconds * Double(cores) && slice.end.canary <= canaryMax
  }
}

/// Noise of a whole run.
package struct NoiseReport: Sendable, Equatable {
  /// Slices of about 100 ms, and those left out.
  package var slices = 0
  package var slicesLeftOut = 0
  /// Shares of the machine's CPU time.
  package var stolenShare = 0.0
  package var otherProgramsShare = 0.0
  /// The slowest canary: 1 is undisturbed.
  package var canaryMax = 1.0
  /// How often the device stood still, for how long in all, and the longest time, in seconds.
  package var standstills = 0
  package var standstillSeconds = 0.0
  package var standstillMax = 0.0
  /// Largest share of slices left out before the run is invalid.
  package var invalidShareMax = NoiseRule().invalidShareMax

  package var invalidShare: Double { slices == 0 ? 0 : Double(slicesLeftOut) / Double(slices) }
  package var isValid: Bool { invalidShare <= invalidShareMax }

  private var seconds = 0.0

  package init() {}

  mutating func count(standstills: [Range<Nanoseconds>]) {
    for standstill in standstills {
      let seconds = Double(elapsed(from: standstill.lowerBound, to: standstill.upperBound)) / 1e9
      self.standstills += 1
      standstillSeconds += seconds
      standstillMax = max(standstillMax, seconds)
    }
  }

  /// Counts the slices of one window.
  mutating func count(_ slices: [Slice], rule: NoiseRule, cores: Int) {
    var stolen = stolenShare * seconds
    var others = otherProgramsShare * seconds
    for slice in slices {
      self.slices += 1
      if !rule.admits(slice, cores: cores) { slicesLeftOut += 1 }
      canaryMax = max(canaryMax, slice.end.canary)
      let taken = Double(elapsed(from: slice.begin.stolen, to: slice.end.stolen)) / 1e9
      seconds += slice.seconds * Double(cores)
      stolen += taken
      others += max(0, slice.usage(cores: cores).others / 1e9 - taken)
    }
    guard seconds > 0 else { return }
    stolenShare = stolen / seconds
    otherProgramsShare = others / seconds
  }
}

/// Reads the machine's counters; one instance per run, used by the thread that runs the windows.
struct NoiseMeter {
  private let canaryIterations: UInt64
  private let canaryBest: Double
  private let tickNanoseconds: UInt64

  /// - Parameter iterationsPerMicrosecond: as calibrated.
  init(iterationsPerMicrosecond rate: Double) {
    canaryIterations = UInt64(rate * 30)
    canaryBest = 30_000
    let ticks = sysconf(Int32(_SC_CLK_TCK))
    tickNanoseconds = 1_000_000_000 / UInt64(ticks > 0 ? ticks : 100)
  }

  func read(_ state: WindowState) -> UsageReading {
    var reading = UsageReading()
    // The best of three, so that one switch or page fault does not count; the host takes more than that.
    var best = Double.infinity
    for attempt in 0..<3 {
      let start = SystemClock.threadCPU()
      let sink = SpinWork.burn(canaryIterations, seed: UInt64(attempt) &+ start)
      best = min(best, Double(elapsed(from: start, to: SystemClock.threadCPU())) + (sink == 0 ? 1 : 0))
    }
    reading.canary = best / canaryBest
    reading.time = SystemClock.now()
    reading.process = SystemClock.processCPU()
    reading.backgroundWork = state.work.load(ordering: .relaxed)
    reading.backgroundCPU = state.backgroundCPU.load(ordering: .relaxed)
    var usage = rusage()
    if getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage) == 0 {
      reading.switches = UInt64(clamping: usage.ru_nvcsw) + UInt64(clamping: usage.ru_nivcsw)
    }
    if let text = TextFile.read("/proc/self/statm", limit: 256) {
      let pages = text.split(separator: " ").dropFirst().first.flatMap { UInt64($0) } ?? 0
      reading.resident = pages * UInt64(max(0, sysconf(Int32(_SC_PAGESIZE))))
    }
    if let text = TextFile.read("/proc/stat", limit: 4096), let ticks = Self.parse(text) {
      reading.machineBusy = ticks.busy &* tickNanoseconds
      reading.stolen = ticks.stolen &* tickNanoseconds
    }
    return reading
  }

  /// Ticks of all CPUs from the text of `/proc/stat`: user, nice, system, irq and softirq; and steal.
  static func parse(_ text: String) -> (busy: UInt64, stolen: UInt64)? {
    guard let line = text.split(separator: "\n").first, line.hasPrefix("cpu ") else { return nil }
    let fields = line.split(separator: " ").dropFirst().map { UInt64($0) ?? 0 }
    guard fields.count >= 8 else { return nil }
    return (fields[0] + fields[1] + fields[2] + fields[5] + fields[6], fields[7])
  }
}
