import TestSupport
import Testing

@testable import OpportuneApps

@Suite(.bounded) struct AudioPaceTests {
  private func at(_ milliseconds: Int64) -> Moment { Moment(nanoseconds: milliseconds * 1_000_000) }

  // R-AUD-02
  @Test func aFrameIsInTimeUntilTheNextIsDue() {
    var pace = AudioPace(period: .milliseconds(10), from: at(0))
    for (moment, underruns, due) in [(0, 0, 10), (20, 0, 20), (31, 1, 40), (75, 4, 80)]
      as [(Int64, UInt64, Int64)]
    {
      pace.finished(at: at(moment))
      #expect(pace.underruns == underruns && pace.due == at(due), "ready at \(moment) ms")
    }
    #expect(pace.frame == 4 && pace.longest == .milliseconds(35))
  }

  // R-AUD-05
  @Test func aPauseLeavesOutNoFrameAndIsNoUnderrun() {
    var pace = AudioPace(period: .milliseconds(10), from: at(0))
    pace.finished(at: at(1))
    pace.resume(at: at(60_000))
    #expect(pace.frame == 1 && pace.due == at(60_000))
    pace.finished(at: at(60_009))
    #expect(pace.underruns == 0 && pace.frame == 2 && pace.due == at(60_010))
  }

  @Test func periodsOutOfRangeAreBrought() {
    #expect(AudioPace(period: .zero, from: .zero).period == .milliseconds(1))
    #expect(AudioPace(period: .seconds(3600), from: .zero).period == .seconds(1))
  }

  // R-AUD-01, R-AUD-02
  @Test func theCallbackRunsOncePerPeriodOfAnyClock() async {
    // Each callback takes what stands here, in milliseconds of a clock that only moves by that and by
    // sleeping.
    let costs: [Int64] = [1, 2, 25, 1, 1]
    let clock = HandClock()
    let counters = AudioStream.Counters()
    let frames = Frames()
    let task = Task {
      await AudioPace(period: .milliseconds(10), from: .zero).run(
        on: clock, since: HandClock.Instant(), counters
      ) {
        frames.add($0.number, at: clock.now.offset)
        clock.advance(.milliseconds(costs[Int($0.number)]))
        if $0.number == 4 { withUnsafeCurrentTask { $0?.cancel() } }
      }
    }
    let pace = await task.value
    #expect(frames.all.map(\.number) == [0, 1, 2, 3, 4])
    // The third is ready 25 ms late into its period: two periods have begun without it.
    #expect(frames.all.map(\.moment) == [0, 10, 20, 50, 60].map { .milliseconds($0) })
    #expect(pace.frame == 5 && counters.statistics.frames == 5 && counters.statistics.underruns == 2)
    #expect(counters.statistics.longest == .milliseconds(25))
  }

  // R-AUD-01
  @Test func timersThatEndEarlyEndTheStream() async {
    let counters = AudioStream.Counters()
    let clock = HandClock(isOver: true)
    let pace = await AudioPace(period: .milliseconds(10), from: .zero).run(
      on: clock, since: HandClock.Instant(), counters
    ) { _ in }
    #expect(pace.frame == 1)  // the one that was due at once
  }
}

/// Moves when it is slept on, and by hand; one task uses it at a time.
private final class HandClock: Clock, @unchecked Sendable {
  struct Instant: InstantProtocol {
    var offset: Duration = .zero
    func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
    func duration(to other: Instant) -> Duration { other.offset - offset }
    static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
  }

  private(set) var now = Instant()
  let minimumResolution: Duration = .nanoseconds(1)
  private let isOver: Bool
  init(isOver: Bool = false) { self.isOver = isOver }

  func advance(_ time: Duration) { now = now.advanced(by: time) }

  func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    if !isOver { now = max(now, deadline) }
  }
}

/// Written by one task, read after its end.
private final class Frames: @unchecked Sendable {
  private(set) var all: [(number: UInt64, moment: Duration)] = []
  func add(_ number: UInt64, at moment: Duration) { all.append((number, moment)) }
}
