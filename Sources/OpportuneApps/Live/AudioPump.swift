import OpportuneScheduler

/// Calls an audio stream's callback, period by period, in a place of its own in the scheduler, so that its
/// band does not depend on the app's.
///
/// The host's alone. A task makes the frames from one start to the next stop; its pace is what it returns,
/// and the next task takes it from there. So there is one at a time, without a lock that a real-time thread
/// could wait for.
final class AudioPump {
  let stream: AudioStream
  let place: App
  private let top: Band
  private let start: AppClock.Instant
  private let render: @Sendable (AudioStream.Frame) -> Void
  private var last: AppTask<AudioPace>?
  private(set) var isRunning = false
  /// What holds the code of its callback, where that is asked for.
  var file: String?

  init(
    _ stream: AudioStream, place: App, render: @escaping @Sendable (AudioStream.Frame) -> Void
  ) {
    self.stream = stream
    self.place = place
    top = place.band
    start = place.clock.now
    self.render = render
  }

  /// Goes on with the next frame.
  func run() {
    guard !isRunning, let leave = stream.app.countIn() else { return }
    isRunning = true
    let before = last
    let first = AudioPace(period: stream.period, from: .zero)
    let (clock, start, counters, render) = (place.clock, start, stream.counters, render)
    last = place.task(name: "audio", priority: .high) {
      defer { leave() }
      let pace = (try? await before?.task.value) ?? first
      return await pace.run(on: clock, since: start, counters, render)
    }
  }

  /// No callback starts from here on.
  func halt() {
    guard isRunning else { return }
    isRunning = false
    last?.cancel()
  }

  /// Real-time code of an app in background without the audio service is demoted. (R-CPU-09)
  func restrict(_ restrictions: Restrictions) {
    // Its own band needs no pool that it did not have from the start.
    try? place.setBand(restrictions.mayRunRealTime ? top : .background)
  }

  /// For good. What is queued ends by itself, in background.
  func end() {
    halt()
    try? place.setBand(.background)
    place.resume()
  }
}

extension AudioPace {
  /// Makes frames until the task is cancelled, or the clock's timers end; returns where it got.
  func run<C: Clock>(
    on clock: C, since start: C.Instant, _ counters: AudioStream.Counters,
    _ render: @Sendable (AudioStream.Frame) -> Void
  ) async -> AudioPace where C.Duration == Duration {
    func now() -> Moment { Moment.zero + start.duration(to: clock.now) }
    var pace = self
    pace.resume(at: now())
    while true {
      try? await clock.sleep(until: start.advanced(by: pace.due - .zero), tolerance: .zero)
      // A sleep that ends early does so because the scheduler was shut down.
      guard !Task.isCancelled, now() >= pace.due else { return pace }
      render(AudioStream.Frame(number: pace.frame, underruns: pace.underruns))
      pace.finished(at: now())
      counters.note(pace)
    }
  }
}
