@_exported public import OpportuneApps

/// The delegate of a program that is an app of the host of programs (`opportune host`): the callbacks that an
/// app inside a program has, and what only a whole program hears.
///
/// They run one after another, not on a thread of the program's choice. The host waits for the return of
/// each, up to a grace; who exceeds it is left, and is from then on a program that knows nothing of the host.
/// Of `AppDelegate`, the host calls the six callbacks of the lifecycle,
/// `AppDelegate.didReceiveMemoryWarning()`, and `AppDelegate.didReceive(_:)` for messages, data and
/// heartbeats.
/// All have an empty default. (R-LIFE-11, R-LIFE-12, R-LIFE-14)
public protocol ProgramDelegate: AppDelegate {
  /// Nothing of the app executes after the return of this: its processes are stopped.
  func willSuspend() async
  /// The app goes on; follows each ``willSuspend()``, also where it was not suspended after all.
  func didResume() async
  /// A message has come for the app, by `opportune notify` or the host's socket, or the time of a
  /// notification that it has scheduled: see ``HostConnection/schedule(_:as:)``. Where it was suspended it
  /// is so again after the return. By default this calls `AppDelegate.didReceive(_:)`, and replies nothing.
  /// (R-MSG-01)
  ///
  /// - Returns: what the sender is told; `nil`, and one that takes more than 3,000 bytes as JSON: nothing.
  func reply(to message: Message) async -> String?
  /// The host has gone, or has left this program; nothing follows.
  ///
  /// - Parameter reason: for people.
  func didLeaveHost(_ reason: String) async
}

extension ProgramDelegate {
  public func willSuspend() async {}
  public func didResume() async {}
  public func reply(to message: Message) async -> String? {
    await didReceive(.message(message))
    return nil
  }
  public func didLeaveHost(_ reason: String) async {}
}

/// The delegate of a program that can be ended and started anew as it was. So it is hibernated where there is
/// no swap to page it out to: `opportune hibernate`. The app is to have a manifest, which says how it is
/// started. (R-LIFE-07)
public protocol RestartableProgramDelegate: ProgramDelegate {
  /// Where the program is in its work: what it needs to be as it is now. After the return
  /// `AppDelegate.willTerminate()` follows, unless it is to go on after all: then nothing follows, and the
  /// state is of no use.
  ///
  /// - Returns: the state, of at most 1,048,576 bytes; a larger one, and `nil`, is none: it is not ended and
  ///   goes on.
  func saveState() async -> [UInt8]?
  /// It was started anew, and is to be as it was: the first callback, before
  /// `AppDelegate.didFinishLaunching(_:)`. The host drops the state after the return.
  ///
  /// - Parameter state: what ``saveState()`` has returned.
  func restoreState(_ state: [UInt8]) async
}
