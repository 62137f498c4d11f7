internal import OpportuneBase

/// When the frames of an audio stream are due, and which of them came too late: a value, driven by whatever
/// clock its host has. (R-AUD-01, R-AUD-02)
///
/// Frame after frame is due one period after the other. While one is made the device plays the one before, so
/// a frame is in time until the next one is due. Of one that is not, each period that began without it is an
/// underrun, and the frames after it are due that much later: numbers are never skipped nor repeated.
package struct AudioPace: Sendable, Hashable {
  /// Periods that are accepted: 1 ms to 1 s.
  package static let periods: ClosedRange<Duration> = .milliseconds(1) ... .seconds(1)

  package let period: Duration
  /// The number of the frame that comes next, from 0 on.
  package private(set) var frame: UInt64 = 0
  /// When that frame is due.
  package private(set) var due: Moment
  /// Periods that began without their frame.
  package private(set) var underruns: UInt64 = 0
  /// The longest that a frame was ready after it was due.
  package private(set) var longest: Duration = .zero

  /// - Parameters:
  ///   - period: one of ``periods``; what is outside counts as the nearest.
  ///   - moment: when the first frame is due.
  package init(period: Duration, from moment: Moment) {
    self.period = min(max(period, Self.periods.lowerBound), Self.periods.upperBound)
    due = moment
  }

  /// The next frame is due now, whatever time has passed: the stream was paused.
  package mutating func resume(at moment: Moment) { due = moment }

  /// The frame that was due is ready.
  package mutating func finished(at moment: Moment) {
    let taken = max(.zero, moment - due)
    longest = max(longest, taken)
    // One that is ready just as the next is due is in time.
    let missed = max(0, taken.clampedNanoseconds - 1) / period.clampedNanoseconds
    underruns += UInt64(missed)
    due = due + period * (missed + 1)
    frame += 1
  }
}
