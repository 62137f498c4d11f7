/// A snapshot of an app.
public struct AppView: Sendable {
  /// The app.
  public let id: AppID
  /// The manifest as registered, with the user's settings applied.
  public let manifest: Manifest
  /// Its lifecycle state.
  public let state: LifecycleState
  /// The restrictions of its state.
  public let restrictions: Restrictions
  /// When it entered this state.
  public let since: Moment
  /// When it was last in the foreground; `nil` is never.
  public let lastUsed: Moment?
  /// The open tasks, the oldest first.
  public let openTasks: [TaskID]
  /// The resources that it has locked.
  public let locks: [SharedResource]
  /// The hardware that it has.
  public let grants: Set<Hardware>
  /// Its bytes in main memory, as last reported.
  public let footprint: UInt64
  /// Broken best-practice rules, and how often.
  public let brokenRules: [BestPractice: Int]
  /// The requested callbacks that have not returned; the first one runs.
  public let callbacks: [Callback]
  /// Why an app in background is neither suspended nor hibernated; empty in other states.
  public let heldBy: [BackgroundHold]
}
