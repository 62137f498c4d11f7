import OpportuneBase

/// Work that only computes: the same arithmetic for every contender, counted in iterations.
enum SpinWork {
  /// Runs `iterations` steps of a generator that no compiler can fold, and returns its state.
  @inline(never)
  static func burn(_ iterations: UInt64, seed: UInt64 = 0x9E37_79B9_7F4A_7C15) -> UInt64 {
    var state = seed | 1
    var left = iterations
    while left > 0 {
      state ^= state << 13
      state ^= state >> 7
      state ^= state << 17
      left &-= 1
    }
    return state
  }

  /// Iterations per microsecond of CPU time: the best of several tries, so that a disturbed one does not
  /// count.
  static func calibrate(tries: Int = 40) -> Double {
    let iterations: UInt64 = 500_000
    var best = 0.0
    for attempt in 0..<tries {
      let start = SystemClock.threadCPU()
      let state = burn(iterations, seed: UInt64(attempt) &+ 77)
      let used = elapsed(from: start, to: SystemClock.threadCPU()) &+ (state == 0 ? 1 : 0)
      if used > 0 { best = max(best, Double(iterations) * 1000 / Double(used)) }
    }
    return best
  }
}
