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

struct Mail: AppDelegate {}

func testing() async throws {
  let clock = TestClock()
  print("backups: \(try await backUp(every: .seconds(3_600), times: 24, on: clock))")
  print("on the clock: \(Int(clock.now.seconds / 3_600)) hours")

  var policy = AppsPolicy()
  policy.suspendsOnReturn = true  // as soon as it has saved, not five seconds later
  let host = try AppHost(policy: policy)
  let events = await host.observe()
  let mail = try await host.launch(Manifest(identifier: "mail")) { _ in Mail() }
  try await host.post(.wallClock(1_000))  // from now on the host's date is what it is told
  try await mail.post(.schedule(LocalNotification(fireDate: .instant(90_000), body: "Write to Ada")))
  try await host.leave(mail.id)
  for await event in events {  // no sleep in a test: what it waits for comes as an event
    if case .moved(_, .suspended, _) = event.action { try await host.post(.wallClock(90_000)) }
    guard case .notify(let note) = event.action else { continue }
    print("a day later: \(note.body)")
    break
  }

  let browser = RemovalCandidate(
    app: 1, name: "browser", standing: .suspended, footprint: 300 << 20, idle: 60_000_000_000)
  let player = RemovalCandidate(app: 2, name: "player", standing: .audio, footprint: 20 << 20, idle: 1)
  let reading = MemoryReading(capacity: 1 << 30, inUse: 900 << 20)
  print(RemovalPolicy().choose([player, browser], excess: 100 << 20, reading: reading)?.reason ?? "nobody")
}
