@_exported public import OpportuneApps

/// The delegate of a program that is an app of the host of programs (`opportune host`): the callbacks that an
/// app inside a program has, and what only a whole program hears.
///
/// They run one after another, not on a thread of the program's choice. The host waits for the return of
/// each, up to a grace; who exceeds it is left, and is from then on a program that knows nothing of the host.
/// Of ``AppDelegate``, the host calls the six callbacks of the lifecycle and
/// ``AppDelegate/didReceiveMemoryWarning()``. All have an empty default. (R-LIFE-11, R-LIFE-12, R-LIFE-14)
public protocol ProgramDelegate: AppDelegate {
  /// Nothing of the app executes after the return of this: its processes are stopped.
  func willSuspend() async
  /// The app goes on; follows each ``willSuspend()``, also where it was not suspended after all.
  func didResume() async
  /// The host has gone, or has left this program; nothing follows.
  ///
  /// - Parameter reason: for people.
  func didLeaveHost(_ reason: String) async
}

extension ProgramDelegate {
  public func willSuspend() async {}
  public func didResume() async {}
  public func didLeaveHost(_ reason: String) async {}
}
