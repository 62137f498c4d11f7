/// Makes a failing input smaller: fewer steps first, then zeros for what is left.
struct InputShrinker {
  /// Bytes at the beginning that are not taken out.
  let head: Int
  /// Bytes that are taken out together, or a multiple of them.
  let grain: Int

  /// The smallest input found. `fails` returns nil when time is over.
  func shrink(_ input: [UInt8], _ fails: ([UInt8]) -> Bool?) -> [UInt8] {
    var best = input
    while true {
      let before = best
      guard removeParts(&best, fails), clearBytes(&best, fails), best != before else { return best }
    }
  }

  private func removeParts(_ best: inout [UInt8], _ fails: ([UInt8]) -> Bool?) -> Bool {
    var size = max(grain, (best.count - head) / grain / 2 * grain)
    while true {
      var at = head
      while at < best.count {
        var candidate = best
        candidate.removeSubrange(at..<min(at + size, best.count))
        guard let failed = fails(candidate) else { return false }
        if failed { best = candidate } else { at += size }
      }
      guard size > grain else { return true }
      size = max(grain, size / 2 / grain * grain)
    }
  }

  /// Documents stay readable: only machines have steps of more than a byte.
  private func clearBytes(_ best: inout [UInt8], _ fails: ([UInt8]) -> Bool?) -> Bool {
    guard grain > 1 else { return true }
    for at in best.indices where best[at] != 0 {
      for value in [0, best[at] >> 4, best[at] >> 1] where value < best[at] {
        var candidate = best
        candidate[at] = value
        guard let failed = fails(candidate) else { return false }
        if failed {
          best = candidate
          break
        }
      }
    }
    return true
  }
}
