import Opportune
import OpportuneBase
import Synchronization

/// Frames of audio beside work that saturates the machine: an app under the Audio service against bare
/// threads, which take turns within one run.
package struct AudioBench: Sendable {
  /// What one contender made of its frames.
  package struct Row: Sendable {
    package let contender: String
    package let beside: String
    package internal(set) var frames: UInt64 = 0
    /// Periods that began without their frame.
    package internal(set) var underruns: UInt64 = 0
    /// From when a frame was due until it was ready, at most.
    package internal(set) var longestMicroseconds: Double = 0
    /// Why it did not take part.
    package internal(set) var refusal: String?
  }

  /// CPU time that each frame takes.
  package static let work: Duration = .milliseconds(1)

  private let frames: UInt64
  private let repeats: Int
  private let period: Duration

  /// - Parameters:
  ///   - frames: of each contender in each repeat; 1 to 1,000,000.
  ///   - repeats: 1 to 100.
  ///   - period: one of `AudioPace.periods`.
  /// - Throws: ``BenchError`` for the first value that is out of range.
  package init(frames: Int, repeats: Int, period: Duration = .milliseconds(10)) throws(BenchError) {
    try BenchError.check(frames, "--frames", 1...1_000_000)
    try BenchError.check(repeats, "--repeats", 1...100)
    guard AudioPace.periods.contains(period) else {
      throw .invalid("period", "\(period)", expected: "1 ms to 1 s")
    }
    self.frames = UInt64(frames)
    self.repeats = repeats
    self.period = period
  }

  package func run(isInterrupted: () -> Bool = { false }) async throws -> [Row] {
    let burn = UInt64(SpinWork.calibrate() * 1000 * (Self.work / .milliseconds(1)))
    var rows: [Row] = []
    for number in 0..<repeats where !isInterrupted() {
      let host = try makeHost()
      let saturation = try Saturation(of: host.scheduler)
      var once = [try await app(host, burn)]
      once.append(thread(.roundRobin, "bare SCHED_RR thread", beside: Self.background, burn))
      once.append(thread(.normal, "bare normal thread", beside: Self.background, burn))
      saturation.end()
      let hogs = try Hogs(count: host.scheduler.width * 2)
      once.append(thread(.roundRobin, "bare SCHED_RR thread", beside: Self.threads, burn))
      once.append(thread(.normal, "bare normal thread", beside: Self.threads, burn))
      hogs.end()
      try await host.scheduler.shutdown()
      if number == 0 { rows = once } else { for index in rows.indices { rows[index].add(once[index]) } }
    }
    return rows
  }

  private static let background = "an app in background on every core"
  private static let threads = "two normal threads per core"

  private func makeHost() throws -> AppHost {
    var configuration = SchedulerConfiguration()
    configuration.pools.insert(.realTime)
    var policy = AppsPolicy()
    policy.suspendsOnReturn = true
    return try AppHost(scheduler: Scheduler(configuration: configuration), policy: policy)
  }

  private struct Player: AppDelegate {}

  private func app(_ host: AppHost, _ burn: UInt64) async throws -> Row {
    let app = try await host.launch(Manifest(identifier: "player", backgroundModes: [.audio])) { _ in Player()
    }
    let events = await host.observe()
    let (numbers, made) = AsyncStream.makeStream(of: UInt64.self)
    // Only the last is waited for: nothing else is to run because of a frame.
    let last = frames - 1
    let stream = try await app.startAudio(every: period) { frame in
      if SpinWork.burn(burn, seed: frame.number) == 0 || frame.number == last { made.yield(frame.number) }
    }
    try await host.leave(app.id)
    for await event in events { if event.action == .lifecycle(.deliver(.didEnterBackground)) { break } }
    for await number in numbers where number >= last { break }
    let statistics = stream.statistics
    guard await host.state(of: app.id) == .background else {
      throw BenchError(.workLost, "the app with the audio service did not stay in background")
    }
    try await host.terminate(app.id)
    var row = Row(
      contender: "app with the Audio service, pool \(stream.realTimeClass.rawValue)", beside: Self.background)
    row.frames = statistics.frames
    row.underruns = statistics.underruns
    row.longestMicroseconds = statistics.longest / .microseconds(1)
    return row
  }

  /// The same frames by a thread that sleeps until each is due.
  private func thread(_ kernelClass: KernelClass, _ name: String, beside: String, _ burn: UInt64) -> Row {
    var row = Row(contender: name, beside: beside)
    let (frames, period, made) = (frames, period, Made())
    do {
      let thread = try SystemThread(named: "audio", kernelClass: kernelClass) {
        let start = SystemClock.now()
        func now() -> Moment { Moment(nanoseconds: Int64(elapsed(from: start, to: SystemClock.now()))) }
        var pace = AudioPace(period: period, from: .zero)
        while pace.frame < frames {
          SystemClock.sleep(until: start + UInt64(max(0, pace.due.nanoseconds)))
          if SpinWork.burn(burn, seed: pace.frame) == 0 { return }
          pace.finished(at: now())
        }
        made.pace = pace
      }
      thread.join()
    } catch {
      row.refusal = error.description
    }
    guard let pace = made.pace else { return row }
    row.frames = pace.frame
    row.underruns = pace.underruns
    row.longestMicroseconds = pace.longest / .microseconds(1)
    return row
  }

  /// Written by the thread, read once it was joined.
  private final class Made: @unchecked Sendable { var pace: AudioPace? }
}

extension AudioBench.Row {
  fileprivate mutating func add(_ other: Self) {
    frames += other.frames
    underruns += other.underruns
    longestMicroseconds = max(longestMicroseconds, other.longestMicroseconds)
  }
}

/// Jobs of a background app that use every core until they are told to end.
private final class Saturation: Sendable {
  private let isOver = Atomic<Bool>(false)
  private let app: App

  init(of scheduler: Scheduler) throws {
    app = try scheduler.makeApp(named: "background", band: .background)
    for _ in 0..<scheduler.width * 2 { try spin() }
  }

  /// A millisecond at a time, so that it ends soon.
  private func spin() throws(SchedulerError) {
    try app.submit { [self] in
      _ = SpinWork.burn(500_000)
      if !isOver.load(ordering: .relaxed) { try? spin() }
    }
  }

  func end() { isOver.store(true, ordering: .relaxed) }
}

/// Ordinary threads that compute until they are told to end.
private final class Hogs: Sendable {
  private let isOver = Atomic<Bool>(false)

  init(count: Int) throws(BenchError) {
    for number in 0..<count {
      _ = try SystemThread(named: "hog \(number)") { [self] in
        while !isOver.load(ordering: .relaxed) { _ = SpinWork.burn(100_000) }
      }
    }
  }

  func end() { isOver.store(true, ordering: .relaxed) }
}
