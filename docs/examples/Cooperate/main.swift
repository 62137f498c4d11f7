// A program that cooperates with the host of programs: it is told before it is stopped or ended, and asks for
// time to finish what it has begun.
//
//     opportune host &
//     opportune run --foreground -- .build/debug/Cooperate
//     opportune suspend Cooperate     # from another terminal
import Foundation
import OpportuneClient

/// Says what it hears. A line of its input is a task: `begin NAME`, or `end` for the last. As it can be started
/// anew as it was, it is hibernated also where there is no swap.
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
  func didReceiveMemoryWarning() async { say("lets caches go") }
  func didLeaveHost(_ reason: String) async { say("is alone: \(reason)") }
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
      last?.end()
    } else if line.hasPrefix("begin ") {
      do {
        last = try await host.beginTask(String(line.dropFirst(6))) { say("has no more time") }
        say("has time")
      } catch { say("has no time: \(error)") }
    }
  }
  // Its input has ended; it lives on until it is told to end.
  while host.isJoined { try await Task.sleep(for: .seconds(1)) }
} catch let error as HostConnectionError {
  say("works alone: \(error)")
}
