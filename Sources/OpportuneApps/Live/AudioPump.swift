import OpportuneScheduler

/// Calls an audio stream's callback once a period. It uses a scheduler app of its own, so that its band does
/// not depend on the app's.
///
/// Host's strand only. One task makes the frames from a start to the next stop. It returns its pace, from
/// which the next task continues. So there is one task at a time, without a lock that a real-time thread
/// could wait for.
final class AudioPump {
  let stream: AudioStream
  let place: App
  private let top: Band
  private let start: AppClock.Instant
  private let render: @Sendable (AudioStream.Frame) -> Void
  private var last: AppTask<AudioPace, Never>?
  private(set) var isRunning = false
  /// The file that holds the callback's code, where approval is required.
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

  /// Continues with the next frame.
  func run() {
    guard !isRunning, let leave = stream.app.countIn() else { return }
    isRunning = true
    let before = last
    let first = AudioPace(period: stream.period, from: .zero)
    let (clock, start, counters, render) = (place.clock, start, stream.counters, render)
    last = place.task(name: "audio", priority: .high) {
      defer { leave() }
      let pace = await before?.task.value ?? first
      return await pace.run(on: clock, since: start, counters, render)
    }
  }

  /// No callback starts after this.
  func halt() {
    guard isRunning else { return }
    isRunning = false
    last?.cancel()
  }

  /// Real-time code of a background app without the audio service is demoted. (R-CPU-09)
  func restrict(_ restrictions: Restrictions) {
    // The pump's own band needs no pool that it did not have from the start.
    try? place.setBand(restrictions.mayRunRealTime ? top : .background)
  }

  /// Ends the pump for good. Queued work ends in the background.
  func end() {
    halt()
    try? place.setBand(.background)
    place.resume()
  }
}

extension AudioPace {
  /// Makes frames until the task is cancelled, or the clock ends its timers. Returns the pace.
  func run<C: Clock>(
    on clock: C, since start: C.Instant, _ counters: AudioStream.Counters,
    _ render: @Sendable (AudioStream.Frame) -> Void
  ) async -> AudioPace where C.Duration == Duration {
    func now() -> Moment { Moment.zero + start.duration(to: clock.now) }
    var pace = self
    pace.resume(at: now())
    while true {
      try? await clock.sleep(until: start.advanced(by: pace.due - .zero), tolerance: .zero)
      // A sleep ends early only because of the scheduler's shutdown.
      guard !Task.isCancelled, now() >= pace.due else { return pace }
      render(AudioStream.Frame(number: pace.frame, underruns: pace.underruns))
      pace.finished(at: now())
      counters.note(pace)
    }
  }
}
