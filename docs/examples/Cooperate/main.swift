// A program that cooperates with the host of programs: it is told before it is stopped or ended, and asks for
// time to finish what it has begun.
//
//     opportune host &
//     opportune run --foreground -- .build/debug/Cooperate
//     opportune suspend Cooperate     # from another terminal
import Foundation
import OpportuneClient

/// Says what it hears. A line of its input is a task: `begin NAME`, or `end` for the last; `finish NAME`,
/// which takes an hour, unless its time is over before; a notification that it is to hear of after so many
/// seconds, `remind SECONDS`, `reminders` for what is to come, `forget` for none of them; or a named pipe,
/// `listen PATH`: what comes by it wakes the program also while it is suspended. `beat SECONDS`: it goes on
/// so often while it is suspended, and sends a heartbeat, so far to its output alone. `apps
/// NAME...` has apps inside, the last in front, that the host lists. As it can be started anew as
/// it was, it is hibernated also where there is no swap.
struct Program: RestartableProgramDelegate {
  func didFinishLaunching(_ reason: LaunchReason) async { say("launched") }
  func willEnterForeground() async { say("comes to the front") }
  func didBecomeActive() async { say("is in front") }
  func willResignActive() async { say("leaves the front") }
  func didEnterBackground() async { say("is in background: saves") }
  func willTerminate() async { say("ends: saves") }
  func willSuspend() async { say("stops") }
  func didResume() async { say("goes on") }
  func saveState() async -> [UInt8]? { Array("page 7".utf8) }
  func restoreState(_ state: [UInt8]) async { say("was at \(String(decoding: state, as: UTF8.self))") }
  func reply(to message: Message) async -> String? {
    if message.origin == .local {
      say("is reminded: \(message.payload["body"] ?? "")")
    } else {
      say("has a message '\(message.kind)' of \(message.payload["from"] ?? "nobody")")
    }
    return "read"
  }
  func didReceive(_ notice: AppNotice) async {
    if notice == .heartbeat { say("sends a heartbeat") } else { say("has heard '\(await feed.read())'") }
  }
  func didReceiveMemoryWarning() async { say("lets caches go") }
  func didLeaveHost(_ reason: String) async { say("is alone: \(reason)") }
}

/// What it listens to.
actor Feed {
  private var descriptor: Int32 = -1

  func open(_ path: String) -> Int32 {
    descriptor = Foundation.open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
    return descriptor
  }

  /// All that is there.
  func read() -> String {
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = Foundation.read(descriptor, &bytes, bytes.count)
    return String(decoding: bytes[..<max(0, count)], as: UTF8.self)
  }
}

let feed = Feed()

/// An app inside of it.
struct Inner: AppDelegate {
  let name: String
  func didBecomeActive() async { say("\(name) is in front") }
  func didEnterBackground() async { say("\(name) is in background") }
  func willTerminate() async { say("\(name) ends") }
}

func makeApps(_ names: [String]) async throws -> AppHost {
  let apps = try AppHost()
  for name in names {
    _ = try await apps.launch(Manifest(identifier: name)) { _ in Inner(name: name) }
  }
  return apps
}

func say(_ text: String) {
  // At once, also where the output is a pipe.
  FileHandle.standardOutput.write(Data((text + "\n").utf8))
}

do {
  let host = try HostConnection.join(delegate: Program())
  say("is the app '\(host.name)'")
  var last: BackgroundTask?
  while let line = readLine() {
    if line == "end" {
      if let last { host.endTask(last) }
    } else if line.hasPrefix("begin ") {
      do {
        last = try await host.beginTask(String(line.dropFirst(6))) { task in
          say("has no more time")
          host.endTask(task)
        }
        say("has time")
      } catch { say("has no time: \(error)") }
    } else if line.hasPrefix("finish ") {
      // Not on the main actor, which waits for the next line.
      Task.detached {
        do {
          try await host.withBackgroundTask(String(line.dropFirst(7))) {
            say("works")
            defer { say("has put away what is not finished") }
            try await Task.sleep(for: .seconds(3600))
          }
        } catch let error as HostConnectionError {
          say("has no time: \(error)")
        } catch {}  // cancelled: it has put away what it had
      }
    } else if line.hasPrefix("remind ") {
      do {
        let date = Date() + (Double(line.dropFirst(7)) ?? 0)
        try await host.schedule(
          LocalNotification(fireDate: .instant(date.timeIntervalSince1970), body: "tea"), as: "reminder")
        say("will be reminded")
      } catch { say("cannot be reminded: \(error)") }
    } else if line == "reminders" {
      do {
        let names = try await host.pendingNotifications().map(\.name)
        say("is to hear of \(names.isEmpty ? "nothing" : names.joined(separator: ", "))")
      } catch { say("cannot ask: \(error)") }
    } else if line == "forget" {
      host.cancelLocalNotifications()
    } else if line.hasPrefix("beat ") {
      do {
        try await host.setHeartbeat(every: .seconds(Double(line.dropFirst(5)) ?? 0))
        say("will send heartbeats")
      } catch { say("cannot send heartbeats: \(error)") }
    } else if line.hasPrefix("apps ") {
      do {
        let names = line.split(separator: " ").dropFirst().map(String.init)
        host.list(try await makeApps(names)) { app, reason in say("\(app) is not listed: \(reason)") }
        say("has apps")
      } catch { say("has no apps: \(error)") }
    } else if line.hasPrefix("listen ") {
      do {
        _ = try await host.keepAlive(await feed.open(String(line.dropFirst(7))))
        say("listens")
      } catch { say("cannot listen: \(error)") }
    }
  }
  // Its input has ended; it lives on until it is told to end.
  while host.isJoined { try await Task.sleep(for: .seconds(1)) }
} catch let error as HostConnectionError {
  say("works alone: \(error)")
}
