/// What one window used, over its slices that count.
struct WindowUsage: Sendable, Equatable {
  /// Work done by background jobs (or hogs): iterations, or bytes indexed.
  var work = 0.0
  /// CPU time that the machine had: cores × time, in nanoseconds.
  var capacity = 0.0
  /// CPU time of this process: jobs, dispatch, spinning and the load generator.
  var process = 0.0
  /// CPU time inside background jobs.
  var backgroundJobs = 0.0
  /// CPU time of other programs, and what the host took.
  var others = 0.0

  static func += (left: inout WindowUsage, right: WindowUsage) {
    left.work += right.work
    left.capacity += right.capacity
    left.process += right.process
    left.backgroundJobs += right.backgroundJobs
    left.others += right.others
  }
}

/// How much of what the foreground left the background turned into work.
enum BackgroundKept {
  /// Work done ÷ (work done alone × the CPU share that the foreground left), of two paired windows.
  ///
  /// All CPU time of the process that is not inside a background job counts as foreground, so spinning does,
  /// except what running a background job costs around it, which is known from the window where it ran alone.
  /// CPU time of other programs and of the host was nobody's to use, in either window. Nil where either
  /// window has no work, or the foreground left less than a hundredth.
  static func share(beside: WindowUsage, alone: WindowUsage) -> Double? {
    let aloneCPU = alone.capacity - alone.others
    guard alone.work > 0, aloneCPU > 0, beside.capacity > 0 else { return nil }
    let overheadPerWork = max(0, alone.process - alone.backgroundJobs) / alone.work
    let foreground = max(0, beside.process - beside.backgroundJobs - overheadPerWork * beside.work)
    let left = beside.capacity - beside.others - foreground
    guard left > 0.01 * beside.capacity else { return nil }
    return beside.work / (alone.work / aloneCPU * left)
  }

  /// The share over all pairs, with the smallest and the largest of a single pair.
  static func interval(_ pairs: [(beside: WindowUsage, alone: WindowUsage)]) -> KeptInterval? {
    let single = pairs.compactMap { share(beside: $0.beside, alone: $0.alone) }
    guard let low = single.min(), let high = single.max() else { return nil }
    var beside = WindowUsage()
    var alone = WindowUsage()
    for pair in pairs {
      beside += pair.beside
      alone += pair.alone
    }
    guard let value = share(beside: beside, alone: alone) else { return nil }
    return KeptInterval(value: value, low: min(low, value), high: max(high, value))
  }
}

/// A share with its spread over the repeats.
package struct KeptInterval: Sendable, Equatable {
  package let value: Double
  package let low: Double
  package let high: Double
}
