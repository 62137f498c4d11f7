internal import OpportuneBase
import OpportuneScheduler
import Synchronization

/// An app's audio: its frames are made by a callback once a period, on the real-time pool. (R-AUD-01,
/// R-AUD-02)
///
/// While it plays it keeps its app in background, if the app declares that; paused, the app is suspended like
/// any other. Made by ``HostedApp/startAudio(_:every:render:)``. All members may be used from any thread.
///
/// ```swift
/// let stream = try await player.startAudio { frame in mix(frame.number) }
/// try await stream.pause()    // in background: the app is suspended
/// try await stream.resume()   // background again; the next frame follows the last one
/// ```
public final class AudioStream: Sendable {
  /// What the callback is to make.
  public struct Frame: Sendable, Hashable {
    /// From 0 on, none left out and none twice.
    public let number: UInt64
    /// Periods, so far, that began without their frame.
    public let underruns: UInt64
  }

  /// What became of the frames.
  public struct Statistics: Sendable, Hashable {
    /// That were rendered.
    public let frames: UInt64
    /// Periods that began without their frame, because it was made too late or took too long.
    public let underruns: UInt64
    /// The longest from when a frame was due until it was ready.
    public let longest: Duration
  }

  /// Playing or recording.
  public let activity: AudioActivity
  /// From one frame to the next.
  public let period: Duration
  /// What the kernel gives its callbacks.
  public let realTimeClass: RealTimeClass
  let app: HostedApp
  let counters: Counters

  /// Written by the one task that makes frames, read by anyone.
  final class Counters: Sendable {
    private let frames = Atomic<UInt64>(0)
    private let underruns = Atomic<UInt64>(0)
    private let longest = Atomic<Int64>(0)

    func note(_ pace: AudioPace) {
      underruns.store(pace.underruns, ordering: .relaxed)
      longest.store(pace.longest.clampedNanoseconds, ordering: .relaxed)
      // releasing: whoever reads so many frames reads what became of them.
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

  /// What has been rendered until now.
  public var statistics: Statistics { counters.statistics }

  /// No callback starts once this has returned; one that runs goes on to its end. An app in background is
  /// suspended. (R-AUD-05)
  ///
  /// - Throws: ``HostError``: the app was terminated, or its audio ended.
  public func pause() async throws(HostError) { try await app.post(.audioPaused) }

  /// Goes on with the frame after the last; an app that the pause has suspended is in background again.
  /// (R-AUD-05)
  ///
  /// - Throws: ``HostError``: the app was terminated, or its audio ended.
  public func resume() async throws(HostError) { try await app.post(.audioResumed) }

  /// Ends the stream for good; another can be started.
  ///
  /// - Throws: ``HostError``: the app was terminated, or its audio ended.
  public func end() async throws(HostError) { try await app.post(.audioEnded) }
}

extension HostedApp {
  /// Starts to play or record: `render` is called once a period until the stream is paused or ends. One at a
  /// time.
  ///
  /// Callbacks run on the scheduler's real-time pool, so give the host a scheduler whose configuration has
  /// one; ``AudioStream/realTimeClass`` says what that is worth here. In background they stay there only
  /// while the app has the audio service; where the policy names ``AudioPolicy/approvedLibraries``, only if
  /// one of these holds the code of `render`, else the audio is paused; what approved code
  /// calls is approved with it. (R-AUD-02, R-CPU-09, R-AUD-07)
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
