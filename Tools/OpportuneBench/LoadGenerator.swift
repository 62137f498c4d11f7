import OpportuneBase
import Synchronization

/// The scheduled starts of one stream, relative to the beginning of the window. Pure: the same seed gives the
/// same times to every contender.
struct ArrivalSchedule: Sendable {
  private var random: SplitMix64
  private let mean: Double
  private let jitter: Double
  private(set) var next: Nanoseconds

  /// - Parameters: mean and jitter in microseconds; each gap is uniform in mean ± jitter.
  init(mean: Double, jitter: Double, seed: UInt64) {
    self.mean = mean
    self.jitter = jitter
    random = SplitMix64(seed: seed)
    next = 0
    // Streams of equal means do not march in step.
    next = Nanoseconds(Double.random(in: 0...mean, using: &random) * 1000)
  }

  /// One each `mean` microseconds, from `first` on.
  init(every mean: Double, first: Double) {
    self.mean = mean
    jitter = 0
    random = SplitMix64(seed: 0)
    next = Nanoseconds(first * 1000)
  }

  mutating func advance() {
    let gap = jitter > 0 ? Double.random(in: (mean - jitter)...(mean + jitter), using: &random) : mean
    next += Nanoseconds(max(1, gap * 1000))
  }
}

/// One stream of interactive jobs, ready to run.
struct LoadStream: Sendable {
  var schedule: ArrivalSchedule
  /// Jobs per arrival.
  var burst: Int
  var submit: @Sendable (@escaping Job) -> Bool
  /// What a job does; called on the contender's thread, between the stamps.
  var work: @Sendable () -> Void
}

/// Submits interactive jobs on an open-loop schedule: late or not, every intended start is submitted.
struct LoadGenerator: Sendable {
  let state: WindowState
  let log: SampleLog

  /// Submits everything that is intended before `end`; returns when that has passed. What the generator
  /// itself was too late for is logged as never submitted.
  func run(_ streams: [LoadStream], from begin: Nanoseconds, until end: Nanoseconds) {
    sharpenTimersOfCaller()
    var streams = streams
    while let first = Self.earliest(streams), begin + streams[first].schedule.next < end {
      let intended = begin + streams[first].schedule.next
      let isOver = state.isStopping.load(ordering: .relaxed)
      if !isOver && SystemClock.now() < intended { SystemClock.sleep(until: intended) }
      for _ in 0..<streams[first].burst {
        if isOver {
          _ = log.open(intended: intended, submitted: 0)
        } else {
          submit(streams[first], intended: intended)
        }
      }
      streams[first].schedule.advance()
    }
  }

  /// The stream whose next arrival comes first.
  static func earliest(_ streams: [LoadStream]) -> Int? {
    streams.indices.min { streams[$0].schedule.next < streams[$1].schedule.next }
  }

  private func submit(_ stream: LoadStream, intended: Nanoseconds) {
    guard let slot = log.open(intended: intended, submitted: SystemClock.now()) else { return }
    let log = self.log
    let state = self.state
    let work = stream.work
    state.submit(
      {
        guard !state.isStopping.load(ordering: .relaxed) else { return }
        log.start(slot, at: SystemClock.now())
        work()
        log.finish(slot, at: SystemClock.now())
      }, with: stream.submit)
  }
}
