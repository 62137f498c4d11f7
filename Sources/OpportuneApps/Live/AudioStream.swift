internal import OpportuneBase
import OpportuneScheduler
import Synchronization

/// The audio of an app: a callback makes its frames once a period, on the real-time pool. (R-AUD-01,
/// R-AUD-02)
///
/// While it plays, its app is kept in the background if the app declares audio. While it is paused, the app
/// is suspended like any other. Made by ``HostedApp/startAudio(_:every:render:)``. All members may be used
/// from any thread.
///
/// ```swift
/// let stream = try await player.startAudio { frame in mix(frame.number) }
/// try await stream.pause()    // in background: the app is suspended
/// try await stream.resume()   // background again; the next frame follows the last one
/// ```
public final class AudioStream: Sendable {
  /// The frame that the callback makes.
  public struct Frame: Sendable, Hashable {
    /// The frame's number from 0 on; none is skipped or repeated.
    public let number: UInt64
    /// How many periods so far began without their frame.
    public let underruns: UInt64
  }

  /// Counters of frames.
  public struct Statistics: Sendable, Hashable {
    /// The number of rendered frames.
    public let frames: UInt64
    /// The number of periods that began without their frame, because it was made too late or took too long.
    public let underruns: UInt64
    /// The longest time from a frame's due time until it was ready.
    public let longest: Duration
  }

  /// Playing or recording.
  public let activity: AudioActivity
  /// The time from one frame to the next.
  public let period: Duration
  /// The kernel class of its callbacks.
  public let realTimeClass: RealTimeClass
  let app: HostedApp
  let counters: Counters

  /// Written by the one task that makes frames; read by any thread.
  final class Counters: Sendable {
    private let frames = Atomic<UInt64>(0)
    private let underruns = Atomic<UInt64>(0)
    private let longest = Atomic<Int64>(0)

    func note(_ pace: AudioPace) {
      underruns.store(pace.underruns, ordering: .relaxed)
      longest.store(pace.longest.clampedNanoseconds, ordering: .relaxed)
      // releasing: a reader of this count also reads the matching underruns and times.
      frames.store(pace.frame, ordering: .releasing)
    }

    var statistics: Statistics {
      // acquiring: pairs with note().
      let frames = frames.load(ordering: .acquiring)
      return Statistics(
        frames: frames, underruns: underruns.load(ordering: .relaxed),
        longest: .nanoseconds(longest.load(ordering: .relaxed)))
    }
  }

  init(_ activity: AudioActivity, _ period: Duration, _ realTimeClass: RealTimeClass, _ app: HostedApp) {
    self.activity = activity
    self.period = period
    self.realTimeClass = realTimeClass
    self.app = app
    counters = Counters()
  }

  /// The counters so far.
  public var statistics: Statistics { counters.statistics }

  /// Pauses the stream: no callback starts after this has returned; one that is running continues to its end.
  /// A background app is suspended. (R-AUD-05)
  ///
  /// - Throws: ``HostError``: the app was terminated, or its audio ended.
  public func pause() async throws(HostError) { try await app.post(.audioPaused) }

  /// Continues with the next frame. An app that the pause has suspended returns to the background. (R-AUD-05)
  ///
  /// - Throws: ``HostError``: the app was terminated, or its audio ended.
  public func resume() async throws(HostError) { try await app.post(.audioResumed) }

  /// Ends the stream for good; another can be started.
  ///
  /// - Throws: ``HostError``: the app was terminated, or its audio ended.
  public func end() async throws(HostError) { try await app.post(.audioEnded) }
}

extension HostedApp {
  /// Starts to play or record: `render` is called once a period until the stream is paused or ends. An app
  /// has one stream at a time.
  ///
  /// Callbacks run on the scheduler's real-time pool, so give the host a scheduler whose configuration has
  /// one. ``AudioStream/realTimeClass`` says what kernel class that is here. In the background they stay on
  /// that pool only while the app has the audio service. If the policy sets
  /// ``AudioPolicy/approvedLibraries``, one of these must also hold the code of `render`; otherwise the audio
  /// is paused. Code that approved code calls counts as approved. (R-AUD-02, R-CPU-09, R-AUD-07)
  ///
  /// - Parameters:
  ///   - period: 1 ms to 1 s.
  ///   - render: makes a frame; should neither block nor allocate. Released when the stream ends.
  /// - Throws: ``HostError``: `audio` for another stream or a period out of range, `terminated`, `apps` where
  ///   the app does not execute, `scheduler`.
  public func startAudio(
    _ activity: AudioActivity = .play, every period: Duration = .milliseconds(10),
    render: @escaping @Sendable (AudioStream.Frame) -> Void
  ) async throws(HostError) -> AudioStream {
    guard AudioPace.periods.contains(period) else {
      let limits = AudioPace.periods
      throw HostError(.audio("a period of \(period), expected \(limits.lowerBound) to \(limits.upperBound)"))
    }
    return try await host().startAudio(self, activity, period, render)
  }
}
