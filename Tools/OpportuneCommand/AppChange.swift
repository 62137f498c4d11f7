import ArgumentParser
import Foundation
import OpportuneBase
import OpportuneHost
import ToolSupport

/// What commands share that change one app.
struct AppChange: ParsableArguments {
  @OptionGroup var socket: HostSocketOption
  @Argument(help: "The app, as opportune apps names it.") var name: String
  @OptionGroup var patience: HostTimeout

  func carryOut(_ action: HostRequest.Action) throws {
    try socket.change(HostRequest(action, name: name), patience)
  }
}

/// What `suspend` and `hibernate` share: the app may go on for a while.
struct AppStop: ParsableArguments {
  @OptionGroup var change: AppChange
  @Option(help: "Locks of files: refuse, terminate or ignore. Default: the host's.")
  var locks: LockPolicy.Answer?

  func carryOut(_ action: HostRequest.Action) throws {
    try refuseOwn()
    var request = HostRequest(action, name: change.name)
    request.locks = locks
    var told: Set<String> = []
    while true {
      let answer = try change.socket.ask(request, within: change.patience.limit)
      for note in answer.notes ?? [] where told.insert(note).inserted {
        printToStandardError("Note: \(note)")
      }
      guard let wait = answer.wait else { return }
      // A moment more, since the host looks at it then.
      usleep(UInt32(max(0, min(3600, wait)) * 1_000_000) + 5000)
      request.again = true
    }
  }

  /// Whoever types this in a shell of the app would be locked out. A program without a terminal may mean
  /// itself.
  private func refuseOwn() throws {
    guard isatty(STDIN_FILENO) == 1 || isatty(STDERR_FILENO) == 1 else { return }
    let answer = try change.socket.ask(HostRequest(.apps), within: change.patience.limit)
    let ours = [getpid()] + SessionProcesses.above()
    guard let app = answer.apps?.first(where: { $0.id == change.name }),
      let own = app.pids.first(where: ours.contains)
    else { return }
    let what = own == getpid() ? "this command" : "process \(own), which has started this command,"
    throw Failure(
      "\(what) is of app '\(change.name.printable)', and could not let itself go on once it is stopped")
  }
}
