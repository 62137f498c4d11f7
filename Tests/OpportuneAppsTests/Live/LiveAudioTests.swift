import Opportune
import TestSupport
import Testing

@testable import OpportuneApps

@Suite(.bounded) struct LiveAudioTests {
  private func host(_ change: (inout AppsPolicy) -> Void = { _ in }) throws -> AppHost {
    var configuration = SchedulerConfiguration()
    configuration.pools = [.background, .foreground, .realTime]
    return try patientHost(scheduler: Scheduler(configuration: configuration), change)
  }

  /// An app in front that plays every millisecond, and the numbers of its frames.
  private func player(_ host: AppHost, _ name: String) async throws -> (
    HostedApp, AudioStream, AsyncStream<UInt64>
  ) {
    let app = try await host.launch(Manifest(identifier: name, backgroundModes: [.audio])) { _ in Silent() }
    await wait(host, app, for: .active)
    let (numbers, heard) = AsyncStream.makeStream(of: UInt64.self)
    let stream = try await app.startAudio(every: .milliseconds(1)) { heard.yield($0.number) }
    return (app, stream, numbers)
  }

  // R-AUD-01, R-AUD-02, R-AUD-05
  @Test(.timeLimit(.minutes(1))) func pauseStopsItAndResumeGoesOnAtTheNextFrame() async throws {
    let host = try host()
    let (app, stream, numbers) = try await player(host, "player")
    var next = numbers.makeAsyncIterator()
    var heard: UInt64 = 0
    /// So many more frames, each the one after the last.
    func hear(until end: UInt64) async {
      while heard < end {
        guard await next.next() == heard else {
          Issue.record("frame \(heard) did not come next")
          return
        }
        heard += 1
      }
    }
    await hear(until: 5)
    try await host.leave(app.id)
    await hear(until: stream.statistics.frames + 5)
    #expect(await host.state(of: app.id) == .background)

    try await stream.pause()
    await wait(host, app, for: .suspended)
    let paused = stream.statistics.frames
    let other = try await host.launch(Manifest(identifier: "other")) { _ in Silent() }
    for _ in 0..<1000 { try await other.task {}.value }
    #expect(stream.statistics.frames == paused)

    try await stream.resume()
    #expect(await host.state(of: app.id) == .background)
    await hear(until: paused + 5)
    try await stream.end()
    await wait(host, app, for: .suspended)
    await #expect(throws: HostError.self) { try await stream.resume() }
    await #expect(throws: HostError.self) { try await app.startAudio { _ in } }  // it executes nothing
    try await host.terminate(app.id)
    try await host.terminate(other.id)
  }

  // R-AUD-03, R-AUD-04
  @Test(.timeLimit(.minutes(1)), arguments: [1, 2]) func soManyPlayInBackground(_ maximum: Int) async throws {
    let host = try host { $0.audio.maximum = maximum }
    let (first, firstStream, _) = try await player(host, "first")
    try await host.leave(first.id)
    let (second, secondStream, _) = try await player(host, "second")
    try await host.leave(second.id)
    if maximum == 1 { await wait(host, first, for: .suspended) }
    #expect(await host.state(of: second.id) == .background)
    // The second goes on for so long that the first, if it plays, has played as well.
    let before = (firstStream.statistics.frames, secondStream.statistics.frames)
    try await until { secondStream.statistics.frames >= before.1 + 20 }
    if maximum == 1 {
      #expect(firstStream.statistics.frames == before.0)
    } else {
      try await until { firstStream.statistics.frames != before.0 }
      #expect(await host.state(of: first.id) == .background)
    }
    for id in [first.id, second.id] { try await host.terminate(id) }
  }

  // R-AUD-02, R-CPU-01
  @Test(.timeLimit(.minutes(1))) func framesComeBesideABackgroundThatSaturates() async throws {
    let host = try host()
    let (app, stream, _) = try await player(host, "player")
    try await host.leave(app.id)
    let indexer = try host.scheduler.makeApp(named: "indexer", band: .background)
    let mayEnd = Counter()
    for _ in 0...host.scheduler.width { try indexer.submit { mayEnd.spin(to: 1) } }
    let wanted = stream.statistics.frames + 50
    try await until { stream.statistics.frames >= wanted }
    mayEnd.add()
    try await host.terminate(app.id)
  }

  // R-CPU-09
  @Test(.timeLimit(.minutes(1))) func withoutTheServiceAudioStopsWithItsApp() async throws {
    let host = try host { $0.audio.isOn = false }
    let (app, stream, _) = try await player(host, "player")
    try await leaveAndWait(host, app)
    let stopped = stream.statistics.frames
    let other = try await host.launch(Manifest(identifier: "other")) { _ in Silent() }
    for _ in 0..<1000 { try await other.task {}.value }
    #expect(stream.statistics.frames == stopped)
    // It was never paused, so it goes on with its app.
    try await host.bringForward(app.id)
    try await until { stream.statistics.frames != stopped }
    for id in [app.id, other.id] { try await host.terminate(id) }
  }

  // R-CPU-09, R-AUD-02
  @Test(.timeLimit(.minutes(1)), arguments: [true, false]) func realTimeThreadsAreDemotedInBackground(
    hasService: Bool
  ) async throws {
    let host = try host {
      $0.audio.isOn = hasService
      $0.suspendsOnReturn = false
    }
    let (app, stream, _) = try await player(host, "player")
    let place = try #require(await host.residents[app.id]?.audio?.place)
    #expect(place.band == .realTime)
    try await host.leave(app.id)
    #expect(place.band == (hasService ? .realTime : .background))
    // It plays on for as long as it is there.
    let behind = stream.statistics.frames
    try await until { stream.statistics.frames >= behind + 5 }
    try await host.bringForward(app.id)
    #expect(place.band == .realTime)
    try await stream.end()
    #expect(place.band == .background)
    try await host.terminate(app.id)
  }

  // R-AUD-07
  @Test(.timeLimit(.minutes(1)), arguments: [true, false]) func onlyApprovedCodePlaysInBackground(
    isApproved: Bool
  ) async throws {
    // The code of these callbacks is in the file that holds this function's.
    let own = try #require(LoadedObject.file(holding: #dsohandle))
    let host = try host { $0.audio.approvedLibraries = [isApproved ? own : "/usr/lib/libgood.so"] }
    let (app, stream, _) = try await player(host, "player")
    let frames = stream.statistics.frames
    try await until { stream.statistics.frames != frames }  // in front any may
    let events = await host.observe()
    try await host.leave(app.id)
    if isApproved {
      let behind = stream.statistics.frames
      try await until { stream.statistics.frames >= behind + 20 }
      #expect(await host.state(of: app.id) == .background)
    } else {
      for await event in events { if event.action == .diagnose(.unapprovedLibrary(own)) { break } }
      await wait(host, app, for: .suspended)
      // However often it tries.
      try await stream.resume()
      await wait(host, app, for: .suspended)
    }
    try await host.terminate(app.id)
  }

  // R-AUD-07
  @Test(.timeLimit(.minutes(1))) func whatBeginsToPlayInBackgroundIsLookedAtToo() async throws {
    let own = try #require(LoadedObject.file(holding: #dsohandle))
    let host = try host { $0.audio.approvedLibraries = ["/usr/lib/libgood.so"] }
    let (app, stream, _) = try await player(host, "player")
    // Something else keeps it there, so that it does not move as it goes on.
    _ = try await app.beginTask()
    let events = await host.observe()
    try await host.leave(app.id)
    var seen = 0
    for await event in events where event.action == .diagnose(.unapprovedLibrary(own)) {
      seen += 1
      if seen == 3 { break }
      try await stream.resume()
    }
    #expect(seen == 3)
    #expect(await host.state(of: app.id) == .background)
    try await host.terminate(app.id)
  }

  // R-AUD-02
  @Test(.timeLimit(.minutes(1))) func whatTheKernelGivesIsSaid() async throws {
    let host = try host()
    let (app, stream, _) = try await player(host, "player")
    #expect(stream.realTimeClass == host.scheduler.realTimeClass && stream.realTimeClass != .noPool)
    await #expect(throws: HostError.self) { try await app.startAudio { _ in } }
    try await stream.end()
    await #expect(throws: HostError.self) { try await app.startAudio(every: .microseconds(1)) { _ in } }
    let again = try await app.startAudio(.record, every: .milliseconds(1)) { _ in }
    try await until { again.statistics.frames != 0 }
    try await host.terminate(app.id)
    #expect(try AppHost().scheduler.realTimeClass == .noPool)
  }
}
