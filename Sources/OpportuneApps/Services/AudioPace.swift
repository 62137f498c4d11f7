internal import OpportuneBase

/// When the frames of an audio stream are due, and which were late: a value, driven by the clock of its host.
/// (R-AUD-01, R-AUD-02)
///
/// Frames are due one period apart. While one is made, the device plays the one before; so a frame is in time
/// until the next one is due. If it is late, each period that began without it is an underrun, and the
/// following frames are due that much later. Frame numbers are never skipped nor repeated.
package struct AudioPace: Sendable, Hashable {
  /// The accepted periods: 1 ms to 1 s.
  package static let periods: ClosedRange<Duration> = .milliseconds(1) ... .seconds(1)

  package let period: Duration
  /// The number of the next frame, from 0 on.
  package private(set) var frame: UInt64 = 0
  /// When the next frame is due.
  package private(set) var due: Moment
  /// The number of periods that began without their frame.
  package private(set) var underruns: UInt64 = 0
  /// The longest time from a frame's due time until it was ready.
  package private(set) var longest: Duration = .zero

  /// - Parameters:
  ///   - period: clamped to ``periods``.
  ///   - moment: when the first frame is due.
  package init(period: Duration, from moment: Moment) {
    self.period = min(max(period, Self.periods.lowerBound), Self.periods.upperBound)
    due = moment
  }

  /// Restarts after a pause: the next frame is due now.
  package mutating func resume(at moment: Moment) { due = moment }

  /// The due frame is ready.
  package mutating func finished(at moment: Moment) {
    let taken = max(.zero, moment - due)
    longest = max(longest, taken)
    // A frame that is ready exactly when the next is due is in time.
    let missed = max(0, taken.clampedNanoseconds - 1) / period.clampedNanoseconds
    underruns += UInt64(missed)
    due = due + period * (missed + 1)
    frame += 1
  }
}
