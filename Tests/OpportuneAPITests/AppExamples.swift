import Opportune
import TestSupport
import Testing

// docs: a delegate
struct Mail: AppDelegate {
  func didFinishLaunching(_ reason: LaunchReason) async { print("launched by \(reason)") }
  func didEnterBackground() async { print("the last chance to save") }

  func didReceive(_ notice: AppNotice) async {
    guard case .message(let message) = notice else { return }
    let letter: Message = message
    print("\(letter.kind) from \(letter.payload["from"] ?? "nobody")")
  }
}
// end

// docs: a hibernating app
final class Notes: HibernatingApp, Sendable {
  func handOver() throws -> HandedState { try HandedState(encoding: ["a note"]) }
  func takeOver(_ state: HandedState) throws { print(try state.decoded(as: [String].self)) }
}
// end

@Suite(.bounded) struct AppExamples {
  @Test func aLife() async throws {
    // docs: a life
    let host = try AppHost()
    let mail: HostedApp = try await host.launch(Manifest(identifier: "org.example.mail")) { _ in Mail() }
    try await mail.task { print("typing") }.value
    try await host.leave(mail.id)  // to background; five seconds later, suspended
    try await host.bringForward(mail.id)  // as it was
    try await host.terminate(mail.id)
    // end
  }

  @Test func states() async throws {
    let host = try AppHost()
    let mail = try await host.launch(Manifest(identifier: "org.example.mail")) { _ in Mail() }
    // docs: states
    let id: AppID = mail.id
    let events = await host.observe()
    try await host.terminate(id)
    for await event in events where event.app == id {
      guard case AppEffect.moved(_, let state, _) = event.action else { continue }
      if state == LifecycleState.notRunning { break }
    }
    // end
    #expect(await mail.state() == .notRunning)
  }

  @Test func policies() async throws {
    // docs: policies
    var policy = AppsPolicy()
    policy.grace = .seconds(1)
    policy.tasks.wallClock = .seconds(300)
    let host = try AppHost(policy: policy)
    // end
    #expect(host.policy.grace == .seconds(1))
  }

  @Test func tasks() async throws {
    let host = try AppHost()
    let mail = try await host.launch(Manifest(identifier: "org.example.mail")) { _ in Mail() }
    // docs: time in background
    let sent = try await mail.withBackgroundTask(TaskKind.upload) { true }

    let task = try await mail.beginTask(.download) { (task: TaskID) in
      try? await mail.endTask(task)  // time is up; who does not end it is terminated
    }
    try await mail.endTask(task)
    // end
    #expect(sent)
  }

  @Test func events() async throws {
    let host = try AppHost()
    let mail = try await host.launch(Manifest(identifier: "org.example.mail")) { _ in Mail() }
    // docs: what an app does
    let reminder = LocalNotification(fireDate: .instant(2_000_000_000), body: "Write to Ada")
    try await mail.post(AppAction.schedule(reminder))
    if try await mail.request(Hardware.camera) { try await mail.post(.release(.camera)) }
    // end
  }

  @Test func drawing() async throws {
    let host = try AppHost()
    let game = try await host.launch(Manifest(identifier: "game")) { _ in Mail() }
    // docs: drawing
    let picture: DrawingBuffer = try await game.makeDrawingBuffer(bytes: 640 * 480 * 4)
    picture.pixels.storeBytes(of: 0xff, as: UInt8.self)  // in background this does not show
    // end
    #expect(picture.count >= 640 * 480 * 4)
  }

  @Test func audio() async throws {
    // docs: audio
    var configuration = SchedulerConfiguration()
    configuration.pools.insert(.realTime)
    let host = try AppHost(scheduler: Scheduler(configuration: configuration))
    let manifest = Manifest(identifier: "player", backgroundModes: [.audio])
    let player = try await host.launch(manifest) { _ in Mail() }
    let stream: AudioStream = try await player.startAudio(.play) { frame in _ = frame.number }  // every 10 ms
    try await stream.pause()
    try await stream.end()
    // end
  }

  @Test func errors() async throws {
    let host = try AppHost()
    let mail = try await host.launch(Manifest(identifier: "org.example.mail")) { _ in Mail() }
    try await host.terminate(mail.id)
    try await eventually("its end") { await mail.state() == .notRunning }
    var isOver = false
    // docs: app errors
    do throws(HostError) {
      try mail.submit {}
    } catch {
      if case .terminated(let name) = error.code { isOver = name == "org.example.mail" }
    }
    // end
    #expect(isOver)
  }

  @Test func memory() async throws {
    // docs: memory of apps
    let scheduler = try Scheduler()
    let memory = try HostMemory(scheduler: scheduler)
    let host = try AppHost(scheduler: scheduler, memory: memory)
    try await memory.serve(host)
    let notes = await host.register(Manifest(identifier: "notes"), memory: memory) { _, _ in Notes() }
    try await host.launch(notes)
    // end
    #expect(await host.state(of: notes) != .notRunning)
  }
}
