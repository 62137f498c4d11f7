import OpportuneBase
import TestSupport
import Testing

@testable import OpportuneScheduler

/// What the monitor does not read must not matter.
@Suite(.bounded) struct OffCPUTimeTests {
  private static let rule = BlockingRule(quantum: 10_000, share: 0.05)

  /// As if all were read at each look; the rule written down once more.
  private struct Plain {
    var switches: Int64 = 0
    var off: UInt64 = 0
    var zero: Int64 = 0
    var judged: (cpu: UInt64, off: UInt64) = (0, 0)

    mutating func look(used: UInt64, uncounted: Int64, switches read: Int64) {
      zero = min(zero, uncounted)
      let now = UInt64(uncounted - zero)
      off = read != switches ? now : min(now, off)
      switches = read
      judged.off = min(judged.off, off)
      if Double(off - judged.off) > 0.05 * Double(max(10_000, used - judged.cpu)) { judged = (used, off) }
    }
  }

  // R-CPU-06 R-CPU-08
  /// Random slices that run, wait for a CPU and block: what is decided on is the same, with fewer readings.
  @Test(arguments: [1, 2, 3, 4] as [UInt64]) func readingLessDecidesTheSame(seed: UInt64) {
    var random = SplitMix64(seed: seed)
    var (looks, reads, quanta, blocks) = (0, 0, 0, 0)
    for _ in 0..<300 {
      // A wait for the CPU before the slice counts with the slice's own.
      let before = Bool.random(using: &random) ? 0 : UInt64.random(in: 1...5000, using: &random)
      var (used, waited, off, switches) = (UInt64(0), before, UInt64(0), Int64(0))
      var (lazy, plain) = (OffCPUTime(switches: 0), Plain())
      let blocking = Int.random(in: 0...8, using: &random)
      for _ in 0..<Int.random(in: 1...40, using: &random) {
        for _ in 0..<3 {
          used += .random(in: 0...3000, using: &random)
          if Bool.random(using: &random) { waited += .random(in: 0...3000, using: &random) }
          if Int.random(in: 0..<10, using: &random) < blocking {
            off += .random(in: 1...600, using: &random)
            switches += 1
          }
        }
        let wall = used + off + waited - before
        looks += 1
        plain.look(used: used, uncounted: Int64(off) - Int64(before), switches: switches)
        if lazy.mayMatter(used: used, wall: wall, by: Self.rule) {
          lazy.look(used: used, wall: wall, waited: waited, by: Self.rule) {
            reads += 1
            return switches
          }
        }
        let cpu = used - plain.judged.cpu
        #expect(lazy.cpu(used: used) == cpu, "seed \(seed)")
        if cpu >= 10_000 {
          quanta += 1
          #expect(lazy.offCPU == plain.off - plain.judged.off, "seed \(seed)")
        }
        if plain.judged.cpu == used, used > 0 { blocks += 1 }
      }
    }
    // It was about something, and saved something.
    #expect(
      quanta > 300 && blocks > 300 && reads > 0 && reads < looks * 6 / 10,
      "\(reads) of \(looks), \(quanta), \(blocks)")
  }

  // R-CPU-06
  /// A wait for a CPU that goes on is no blocking: the kernel adds it once it is over.
  @Test func aWaitThatGoesOnIsNoBlocking() {
    var time = OffCPUTime(switches: 7)
    time.look(used: 9000, wall: 30_000, waited: 0, by: Self.rule) { 7 }
    #expect(time.offCPU == 0 && time.cpu(used: 9000) == 9000)
    time.look(used: 12_000, wall: 33_000, waited: 21_000, by: Self.rule) { 7 }
    #expect(time.offCPU == 0 && time.cpu(used: 12_000) == 12_000)
    // The same with a voluntary switch is one: the quantum begins anew.
    time.look(used: 13_000, wall: 50_000, waited: 21_000, by: Self.rule) { 8 }
    #expect(time.offCPU == 0 && time.cpu(used: 13_000) == 0)
  }

  // R-CPU-06
  /// Of a job that runs most of the time only its clock is read after the first look, until its quantum is
  /// over.
  @Test func aShortJobIsNotAskedFor() {
    var time = OffCPUTime(switches: 0)
    #expect(time.mayMatter(used: 10, wall: 10, by: Self.rule))  // the first look
    time.look(used: 10, wall: 10, waited: 0, by: Self.rule) {
      Issue.record("read for nothing")
      return 0
    }
    #expect(!time.mayMatter(used: 9999, wall: 10_400, by: Self.rule))
    #expect(time.mayMatter(used: 10_000, wall: 10_000, by: Self.rule))
    #expect(time.mayMatter(used: 100, wall: 700, by: Self.rule))
  }
}
