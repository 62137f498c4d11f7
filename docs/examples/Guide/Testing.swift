import Opportune

/// What is tested: it waits on the clock that it is given.
func backUp(every pause: Duration, times: Int, on clock: some Clock<Duration>) async throws -> Int {
  for _ in 0..<times { try await clock.sleep(for: pause) }
  return times
}

/// A clock that goes on as soon as somebody sleeps, so that hours take no time.
struct TestClock: Clock {
  let time = Published(Moment.zero)
  var now: Moment { time.value }
  var minimumResolution: Duration { .nanoseconds(1) }
  func sleep(until deadline: Moment, tolerance: Duration?) async throws {
    time.update { max($0, deadline) }
  }
}

/// An app; the same in a test as in the program.
actor Mail: AppDelegate {
  private(set) var did: [String] = []
  func didEnterBackground() { did.append("saved") }
  func didReceiveMemoryWarning() { did.append("made room") }
}

func testing() async throws {
  let clock = TestClock()
  print("backups: \(try await backUp(every: .seconds(3_600), times: 24, on: clock))")
  print("on the clock: \(Int(clock.now.seconds / 3_600)) hours")

  let host = try AppHost.inVirtualTime()  // delegates are called as ever, but the test moves the time
  let mail = Mail()
  let app = try await host.launch(Manifest(identifier: "mail")) { _ in mail }
  try await host.advance(by: .zero)  // no time passes, but the app has launched
  try await app.post(.schedule(LocalNotification(fireDate: .instant(90_000), body: "Write to Ada")))

  var gauge = PressureGauge.standard  // warns from half of the memory on
  if gauge.update(MemoryReading(capacity: 1 << 30, inUse: 600 << 20)) == .warning {
    try await host.post(.app(app.id, .memoryWarning))
  }
  try await host.leave(app.id)
  try await host.advance(by: .milliseconds(4_999))  // no sleep, and yet its callbacks have returned
  print("mail: \(await mail.did.joined(separator: ", "))")
  print("in its grace: \(await app.state())")
  try await host.advance(by: .milliseconds(1))
  print("after it: \(await app.state())")

  let events = await host.observe()
  try await host.advance(by: .seconds(172_800))  // two days
  for await event in events {
    guard case .notify(let note) = event.action else { continue }
    print("at \(event.moment): \(note.body)")
    break
  }

  let browser = RemovalCandidate(
    app: 1, name: "browser", standing: .suspended, footprint: 300 << 20, idle: 60_000_000_000)
  let player = RemovalCandidate(app: 2, name: "player", standing: .audio, footprint: 20 << 20, idle: 1)
  let reading = MemoryReading(capacity: 1 << 30, inUse: 900 << 20)
  print(RemovalPolicy().choose([player, browser], excess: 100 << 20, reading: reading)?.reason ?? "nobody")
}
