import OpportuneBase
import TestSupport
import Testing

@Suite(.bounded) struct TimeTests {
  @Test func durationsBeyondTheRangeAreItsEnds() {
    #expect(Duration.seconds(Int64.max).clampedNanoseconds == .max)
    #expect(Duration.seconds(Int64.min).clampedNanoseconds == .min)
    #expect(
      Duration(secondsComponent: -1, attosecondsComponent: -500_000_000_000_000_000).clampedNanoseconds
        == -1_500_000_000)
  }

  /// What does not fit is for ever, not what is left of it in 64 bits.
  @Test func longDurationsAreForEver() {
    let longest = Duration.seconds(18_446_744_073)
    #expect(longest.unsignedNanoseconds == 18_446_744_073_000_000_000)
    #expect((longest + .milliseconds(999)).unsignedNanoseconds == .max)
    #expect((longest + .seconds(1)).unsignedNanoseconds == .max)
    #expect(Duration.milliseconds(-1).unsignedNanoseconds == 0)
  }

  /// A refused value differs from its limit in what is printed, by one nanosecond too.
  @Test func timesAreNamedInUnitsThatFit() {
    #expect(Duration.zero.inUnits == "0 s" && Duration.nanoseconds(1).inUnits == "1 ns")
    #expect(Duration.microseconds(50).inUnits == "50 µs" && Duration.milliseconds(-1).inUnits == "-1 ms")
    #expect(Duration.microseconds(-1_500).inUnits == "-1.5 ms")
    #expect(Duration.nanoseconds(10_000_001).inUnits == "10.000001 ms")
    #expect(Duration.seconds(Int64.max).inUnits == "9223372036854775807 s")
  }

  @Test func sumsAndDifferencesEndWhereTheNumbersDo() {
    #expect(UInt64.max.saturatingAdd(1) == .max && UInt64(3).saturatingAdd(4) == 7)
    #expect(UInt64(3).saturatingSubtract(4) == 0 && UInt64(4).saturatingSubtract(3) == 1)
    #expect(Int64.max.saturatingAdd(1) == .max && Int64.min.saturatingAdd(-1) == .min)
    #expect(Int64.min.saturatingAdd(.max) == -1)
  }

  @Test func clocksGoForward() {
    let (before, cpuBefore) = (SystemClock.now(), SystemClock.threadCPU())
    SystemClock.sleep(until: before + 2_000_000)
    #expect(SystemClock.now() >= before + 2_000_000)
    #expect(SystemClock.threadCPU() >= cpuBefore)
    #expect(SystemClock.processCPU() >= SystemClock.threadCPU())
    SystemClock.sleep(until: before)
  }
}
