import Glibc
import Opportune
import Synchronization
import TestSupport
import Testing

/// The callbacks of a delegate, in order.
private actor Journal: AppDelegate {
  private(set) var heard: [String] = []
  private var image: UInt8 = 0
  private func note(_ text: String) { heard.append(text) }
  nonisolated func didFinishLaunching(_ reason: LaunchReason) async {
    await note("didFinishLaunching \(reason.rawValue)")
  }
  nonisolated func willEnterForeground() async { await note("willEnterForeground") }
  nonisolated func didBecomeActive() async { await note("didBecomeActive") }
  nonisolated func willResignActive() async { await note("willResignActive") }
  nonisolated func didEnterBackground() async { await note("didEnterBackground") }
  nonisolated func willTerminate() async { await note("willTerminate") }
  nonisolated func didReceive(_ notice: AppNotice) async {
    if case .message(let message) = notice { await note("message \(message.kind)") }
    if case .changes(let changes) = notice { await note("changes \(changes.count)") }
  }
  nonisolated func snapshot() -> [UInt8]? { [1, 2, 3] }
}

@Suite(.bounded) struct LiveTests {
  // R-LIFE-09, R-LIFE-11, R-LIFE-12, R-LIFE-18, R-LIFE-19, R-LIFE-20, R-SYS-01
  @Test(.timeLimit(.minutes(1))) func anAppLivesThroughItsStates() async throws {
    let host = try patientHost()
    let journal = Journal()
    let first = await host.observe()
    let second = await host.observe()
    let app = try await launchAndWait(host, Manifest(identifier: "notes")) { _ in journal }
    try await leaveAndWait(host, app.id)
    #expect(app.app.activity == .suspended)
    #expect(await host.snapshot(of: app.id) == [1, 2, 3])
    #expect(await host.switcher().map(\.id) == [app.id])
    try await host.post(.app(app.id, .changed(kind: "orientation", to: "landscape")))
    try await host.bringForward(app.id)
    await wait(host, app.id, for: .active)
    try await host.terminate(app.id)
    await wait(host, app.id, for: .notRunning)
    let heard = await journal.heard.filter { $0 != "changes 1" }
    #expect(
      heard == [
        "didFinishLaunching user", "didBecomeActive", "willResignActive", "didEnterBackground",
        "willEnterForeground",
        "didBecomeActive", "willResignActive", "willTerminate",
      ])
    #expect(await journal.heard.contains("changes 1"))
    var logs: [[String]] = [[], []]
    for (index, stream) in [first, second].enumerated() {
      for await event in stream {
        logs[index].append("\(event.action)")
        if case .moved(_, .notRunning, _) = event.action { break }
      }
    }
    #expect(logs[0] == logs[1] && logs[0].count > 20)
  }

  // R-LIFE-05, R-SYS-01
  @Test(.timeLimit(.minutes(1))) func launchingWhatIsInFrontGivesItTheInput() async throws {
    let host = try patientHost { $0.maximumForeground = 2 }
    let first = try await host.launch(Manifest(identifier: "first")) { _ in Journal() }
    let second = try await launchAndWait(host, Manifest(identifier: "second")) { _ in Journal() }
    #expect(try await host.launch(first.id) === first)
    await wait(host, first.id, for: .active)
    #expect(await host.state(of: second.id) == .inactive)
    for app in [first, second] { try await host.terminate(app.id) }
  }

  // R-LIFE-25
  @Test(.timeLimit(.minutes(1))) func anAppRecordsItsLaunchesAndResumesByCallbacksAlone() async throws {
    actor Times: AppDelegate {
      private(set) var stamps: [(what: String, at: ContinuousClock.Instant)] = []
      func didFinishLaunching(_ reason: LaunchReason) async { stamps.append(("launch", .now)) }
      func willEnterForeground() async { stamps.append(("resume", .now)) }
    }
    let host = try patientHost()
    let times = Times()
    let app = await host.register(Manifest(identifier: "times")) { _ in times }
    for _ in 0..<2 {
      try await host.launch(app)
      for _ in 0..<2 {
        await wait(host, app, for: .active)
        try await leaveAndWait(host, app)
        try await host.bringForward(app)
      }
      await wait(host, app, for: .active)
      try await host.terminate(app)
      await wait(host, app, for: .notRunning)
    }
    let stamps = await times.stamps
    #expect(stamps.map(\.what) == ["launch", "resume", "resume", "launch", "resume", "resume"])
    #expect(zip(stamps, stamps.dropFirst()).allSatisfy { $0.at < $1.at })
  }

  // R-LIFE-06, R-FTS-06
  @Test(.timeLimit(.minutes(1))) func aSuspendedAppRunsNothing() async throws {
    let host = try patientHost()
    let count = Counter()
    let app = try await host.launch(Manifest(identifier: "busy")) { _ in Journal() }
    for _ in 0..<4 { try requeue(app, count) }
    await wait(host, app.id, for: .active)
    try await until { count.value != 0 }
    try await leaveAndWait(host, app.id)
    let stopped = count.value
    // As many jobs of another app as would let these run a thousand times.
    let other = try await host.launch(Manifest(identifier: "other")) { _ in Journal() }
    for _ in 0..<1000 { try await other.task {}.value }
    #expect(count.value == stopped)
    try await host.bringForward(app.id)
    try await until { count.value != stopped }
    try await host.terminate(app.id)
    await wait(host, app.id, for: .notRunning)
  }

  private func requeue(_ app: HostedApp, _ count: Counter) throws {
    try app.submit {
      count.add()
      try? requeue(app, count)
    }
  }

  // R-LIFE-08
  @Test(.timeLimit(.minutes(1))) func terminationCancelsWhatIsQueuedOnceEach() async throws {
    let host = try patientHost()
    let (ran, cancelled) = (Counter(), Counter())
    let app = try await launchAndWait(host, Manifest(identifier: "queued")) { _ in Journal() }
    try await leaveAndWait(host, app.id)
    for _ in 0..<10_000 { try app.submit(onCancel: { cancelled.add() }, { ran.add() }) }
    let task = try app.task {
      await untilCancelled()
      try Task.checkCancellation()
    }
    try await host.terminate(app.id)
    await wait(host, app.id, for: .notRunning)
    #expect(cancelled.value == 10_000 && ran.value == 0)
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(throws: HostError.self) { try app.submit {} }
    #expect(throws: HostError.self) { try app.task {} }
  }

  // R-LIFE-08, R-CPU-01
  @Test(.timeLimit(.minutes(1))) func aSliceThatWillNotEndIsNamedAndKeptInBackground() async throws {
    let host = try patientHost { $0.sliceAllowance = .milliseconds(20) }
    let (isSpinning, mayEnd) = (Counter(), Counter())
    let app = try await launchAndWait(host, Manifest(identifier: "spinner")) { _ in Journal() }
    try app.submit {
      isSpinning.add()
      mayEnd.spin(to: 1)
    }
    try await until { isSpinning.value != 0 }
    let events = await host.observe()
    try await host.terminate(app.id)
    for await event in events { if event.action == .diagnose(.unendingSlice) { break } }
    #expect(await host.state(of: app.id) == .terminated)
    #expect(app.app.band == .background)
    // Others go on.
    let other = try await host.launch(Manifest(identifier: "other")) { _ in Journal() }
    #expect(try await other.task { 42 }.value == 42)
    mayEnd.add()
    await wait(host, app.id, for: .notRunning)
  }

  // R-LIFE-05, R-LIFE-08
  @Test(.timeLimit(.minutes(1))) func anAppThatTheSchedulerHasNoPlaceForEnds() async throws {
    var configuration = SchedulerConfiguration()
    configuration.maximumApps = 2  // the host's own, and one
    let host = try patientHost(scheduler: Scheduler(configuration: configuration))
    let first = try await host.launch(Manifest(identifier: "first")) { _ in Journal() }
    let second = await host.register(Manifest(identifier: "second")) { _ in Journal() }
    await #expect(throws: HostError.self) { try await host.launch(second) }
    await wait(host, second, for: .notRunning)
    try await host.bringForward(first.id)
    await wait(host, first.id, for: .active)
    try await host.terminate(first.id)
  }

  // R-CPU-10, R-CPU-01
  @Test(.timeLimit(.minutes(1))) func theBandFollowsTheState() async throws {
    let host = try patientHost { $0.suspendsOnReturn = false }
    let app = try await launchAndWait(host, Manifest(identifier: "app")) { _ in Journal() }
    #expect(app.app.band == .foreground)
    try await host.leave(app.id)
    #expect(app.app.band == .background)
    try await host.bringForward(app.id)
    #expect(app.app.band == .foreground)
  }

  // R-TASK-10, R-TASK-12, R-TASK-13, R-TASK-16
  @Test(.timeLimit(.minutes(1))) func theScopedTaskKeepsItsAppAndIsCancelledAtItsLimit() async throws {
    let host = try patientHost { $0.tasks.wallClock = .milliseconds(50) }
    let app = try await launchAndWait(host, Manifest(identifier: "uploader")) { _ in Journal() }
    #expect(await app.isMultitaskingSupported())
    #expect(try await app.withBackgroundTask(.upload) { 42 } == 42)
    let work = Task {
      try await app.withBackgroundTask(.upload) {
        await untilCancelled()
        try Task.checkCancellation()
      }
    }
    try await until { await host.view(of: app.id)?.openTasks.count == 1 }
    try await host.leave(app.id)
    await #expect(throws: CancellationError.self) { try await work.value }
    await wait(host, app.id, for: .suspended)
    #expect(await host.view(of: app.id)?.openTasks == [])
    await #expect(throws: HostError.self) { try await app.beginTask() }
  }

  // R-TASK-12, R-TASK-13, R-TASK-14
  @Test(.timeLimit(.minutes(1))) func theHandlerOfAnExpirationEndsItsTask() async throws {
    let host = try patientHost {
      $0.tasks.wallClock = .milliseconds(50)
      $0.tasks.handlerTime = .seconds(1)
    }
    let tidy = try await launchAndWait(host, Manifest(identifier: "tidy")) { _ in Journal() }
    let begun = try await tidy.beginTask(.download) { task in
      await Task.yield()
      try? await tidy.endTask(task)
    }
    #expect(await host.view(of: tidy.id)?.openTasks.contains(begun) == true)
    try await host.leave(tidy.id)
    await wait(host, tidy.id, for: .suspended)
    #expect(await host.view(of: tidy.id)?.openTasks == [])

    let untidy = try await launchAndWait(host, Manifest(identifier: "untidy")) { _ in Journal() }
    let told = Counter()
    _ = try await untidy.beginTask(.download) {
      await Task.yield()
      told.add()
    }
    try await host.leave(untidy.id)
    await wait(host, untidy.id, for: .notRunning)
    #expect(told.value == 1)
  }

  // R-TASK-12
  @Test(.timeLimit(.minutes(1))) func theBodyOfARefusedTaskDoesNotRun() async throws {
    let host = try patientHost { $0.tasks.needsDeclaration = true }
    let app = try await launchAndWait(host, Manifest(identifier: "uploader")) { _ in Journal() }
    let ran = Counter()
    await #expect(throws: HostError.self) {
      try await app.withBackgroundTask(.other) { ran.add() }
    }
    // What was queued before has run.
    for _ in 0..<10 { await app.app.task {}.value }
    #expect(ran.value == 0)
  }

  // R-MSG-03
  @Test(.timeLimit(.minutes(1))) func aMessageReanimates() async throws {
    let host = try patientHost()
    let journal = Journal()
    let app = try await launchAndWait(host, Manifest(identifier: "mail")) { _ in journal }
    try await leaveAndWait(host, app.id)
    try await host.post(.app(app.id, .message(Message("mail"))))
    await wait(host, app.id, for: .suspended)
    #expect(await journal.heard.last == "message mail")
  }

  // R-HW-01, R-HW-02
  @Test(.timeLimit(.minutes(1))) func anAppLearnsWhetherItHasTheHardware() async throws {
    let host = try patientHost { $0.suspendsOnReturn = false }
    let app = try await launchAndWait(host, Manifest(identifier: "camera")) { _ in Journal() }
    #expect(try await app.request(.camera))
    try await host.leave(app.id)
    #expect(await host.view(of: app.id)?.grants == [])
    #expect(try await !app.request(.camera))
    try await host.terminate(app.id)
    await wait(host, app.id, for: .notRunning)
    await #expect(throws: HostError.self) { try await app.request(.camera) }
  }

  // R-FTS-03
  @Test(.timeLimit(.minutes(1))) func aCallbackThatHangsEndsItsApp() async throws {
    struct Hangs: AppDelegate {
      func didEnterBackground() async { await untilCancelled() }
    }
    let host = try patientHost { $0.grace = .milliseconds(20) }
    let app = try await launchAndWait(host, Manifest(identifier: "hangs")) { _ in Hangs() }
    try await host.leave(app.id)
    await wait(host, app.id, for: .notRunning)
    #expect(throws: HostError.self) { try app.submit {} }
  }

  // R-AUD-07
  @Test func codeIsKnownByTheFileThatHoldsIt() throws {
    let handle = try #require(dlopen(nil, RTLD_NOW))
    let (getpid, retain) = (
      try #require(dlsym(handle, "getpid")), try #require(dlsym(handle, "swift_retain"))
    )
    let good = try #require(LoadedObject.file(holding: getpid))
    #expect(good.contains("libc.so"))
    let bad = try #require(LoadedObject.file(holding: retain))
    #expect(bad.contains("libswiftCore"))
    var local = 0
    #expect(withUnsafePointer(to: &local) { LoadedObject.file(holding: $0) } == nil)
    var rig = try Rig([manifest("player", [.audio])]) { $0.audio.approvedLibraries = [good] }
    try rig.leave(after: .audioBegan(.play))
    try rig.does(.realTimeCode(good))
    #expect(rig.count(.pauseAudio) == 0)
    try rig.does(.realTimeCode(bad))
    #expect(rig.count(.pauseAudio) == 1)
  }
}

final class Counter: Sendable {
  private let count = Atomic<Int>(0)
  func add() { count.add(1, ordering: .sequentiallyConsistent) }
  var value: Int { count.load(ordering: .sequentiallyConsistent) }

  /// Uses the CPU until it has that value; for 100 s at most, by which the test has failed.
  func spin(to value: Int) {
    let end = ContinuousClock.now + .seconds(100)
    while self.value < value, ContinuousClock.now < end {}
  }
}
